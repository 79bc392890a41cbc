"""The suite passes what is sound, and names what is broken by the right check."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import warp as wp

import headrace.testing
from headrace.envs.classic_control import TASKS
from headrace.errors import ConformanceError, UnknownTaskError
from headrace.testing import CHECKS, NotApplicable, run_checks
from headrace.testing.trial import Mismatch, Trial, on_device, play, same, typed_as


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CAUGHT_BY: dict[str, str] = _load("broken").CAUGHT_BY
BY_NAME = {check.__name__: check for check in CHECKS}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("task", [*TASKS, "SoundWalk"])
def test_kernel_tasks_conform(task, check):
    check(task)


@pytest.mark.parametrize("check", CHECKS)
def test_a_simulator_in_cpp_conforms(counter, check):
    check(counter)


def test_an_atari_game_conforms():
    pytest.importorskip("ale_py")
    report = headrace.testing.check("Pong-v5", steps=40, num_envs=3)
    skipped = {result.name for result in report.results if result.verdict == "skipped"}
    assert skipped <= {"devices"}


@pytest.mark.parametrize("task", CAUGHT_BY)
def test_what_is_broken_is_caught_by_the_right_check(task):
    (result,) = run_checks(task, [BY_NAME[CAUGHT_BY[task]]]).results
    assert result.verdict == "failed", result.note


@pytest.mark.parametrize("task", ["OutsideSpace", "LateTruncation", "ForgetfulStates"])
def test_a_breach_of_one_rule_fails_one_check(task):
    """What has a check of its own is not reported by the others too."""
    report = run_checks(task, CHECKS)
    assert [result.name for result in report.failures] == [CAUGHT_BY[task]]


def test_a_failure_says_what_was_expected_and_how_to_see_it_again():
    with pytest.raises(ConformanceError) as failure:
        BY_NAME["truncation"]("LateTruncation", seed=3, num_envs=4)
    text = str(failure.value)
    assert "in step 5 truncated should be True, but is False in environment 0" in text
    call = text.rpartition("again: ")[2]
    assert call == "headrace.testing.truncation('LateTruncation', seed=3, num_envs=4, steps=100)"
    with pytest.raises(ConformanceError, match="in step 5 truncated"):
        eval(call)
    with pytest.raises(ConformanceError, match=r"at \[0\] it is .*, outside of \[0.0, 40.0\]"):
        BY_NAME["spaces"]("OutsideSpace")


def test_check_reports_all_failures_at_once_and_returns_a_report_otherwise():
    with pytest.raises(ConformanceError, match="checks passed") as failure:
        headrace.testing.check("SharedStream")
    for name in ("own_streams", "number_of_environments", "partial_steps"):
        assert f"✗ {name}" in str(failure.value)
    report = headrace.testing.check("SoundWalk")
    assert len(report.results) == len(CHECKS)
    assert "✓ determinism" in str(report)


def test_options_reach_the_task_and_wrong_ones_are_errors_of_their_own():
    assert not headrace.testing.check("CartPole-v1", max_episode_steps=9, sutton_barto_reward=True).failures
    with pytest.raises(headrace.errors.OptionError, match="no option 'gravity'"):
        headrace.testing.check("Pendulum-v1", gravity=3.0)
    with pytest.raises(UnknownTaskError):
        headrace.testing.check("CartPool-v1")


@pytest.mark.parametrize("few", [{"num_envs": 1}, {"steps": 3}, {"steps": 4.5}])
def test_runs_that_are_too_small_to_show_anything(few):
    with pytest.raises(headrace.errors.OptionError, match="must be an integer at least"):
        headrace.testing.check("CartPole-v1", **few)


def test_what_does_not_apply_is_skipped():
    with pytest.raises(NotApplicable, match="no rendering"):
        BY_NAME["rendering"]("UnseenWalk")
    if not wp.is_cuda_available():
        with pytest.raises(NotApplicable, match="no CUDA device"):
            BY_NAME["devices"]("CartPole-v1")


@pytest.mark.parametrize("task", ["CartPole-v1", "TagGridWorld-v0"])
def test_tensors_are_compared_as_arrays_are(task):
    """What the check of devices does on a GPU, with torch's memory on the CPU."""
    torch = pytest.importorskip("torch")
    trial = Trial(task)
    actions = trial.actions()
    settings = {"num_envs": trial.num_envs, "seed": 0, "autoreset": "same_step", "max_episode_steps": trial.limit}
    tensors: Any
    with trial.make() as pool, headrace.make_torch(task, device="cpu", **settings) as tensors:
        here = play(pool, actions)
        there = play(tensors, [on_device(action, torch.device("cpu")) for action in actions])
    same(here, typed_as(here, there), "torch's memory must give what NumPy's gives")
    assert any(frame["final"].any() for frame in here[1:])
    there[20]["obs"][1] += 1
    with pytest.raises(Mismatch, match="After 20 steps, environment 1: obs should be"):
        same(here, typed_as(here, there), "", tolerance=0.5)
