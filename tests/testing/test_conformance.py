"""The suite passes sound environments, and reports each broken one by the right check."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import warp as wp

import headrace.testing
import python_games
import racy_games
from headrace.envs.classic_control import TASKS
from headrace.errors import ConformanceError, KernelError, UnknownTaskError
from headrace.testing import (
    CHECKS,
    NotApplicable,
    autoreset_disabled,
    autoreset_next_step,
    autoreset_same_step,
    run_checks,
)
from headrace.testing.trial import Mismatch, Trial, on_device, play, same, typed_as
from nightly import rest_nightly
from python_games import NESTED


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BROKEN: Any = _load("broken")
CAUGHT_BY: dict[str, str] = BROKEN.CAUGHT_BY
BY_NAME = {check.__name__: check for check in CHECKS}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("task", rest_nightly([*TASKS, "SoundWalk"], "SoundWalk"))
def test_kernel_tasks_conform(task, check):
    check(task)


def test_python_environments_in_processes_conform():
    report = headrace.testing.check(NESTED, steps=30, num_envs=3)
    assert {result.name for result in report.results if result.verdict == "skipped"} == {"devices", "order_of_agents"}


def test_frames_of_python_environments_may_change_with_every_rendering():
    task = f"{Path(python_games.__file__)}:Sparkling"
    BY_NAME["rendering"](task)
    with pytest.raises(ConformanceError, match="same frames after the same seed, actions and renderings"):
        BY_NAME["rendering"](task, chance=True)


@pytest.mark.nightly
def test_many_agents_in_processes_conform():
    pytest.importorskip("pettingzoo")
    report = headrace.testing.check(f"{Path(__file__).parents[1] / 'parallel_games.py'}:Race", steps=30, num_envs=3)
    assert {result.name for result in report.results if result.verdict == "skipped"} == {"devices", "order_of_agents"}


def test_saved_states_is_skipped_for_environments_that_cannot_be_pickled():
    task = f"{Path(__file__).parents[1] / 'train' / 'runners' / 'unsaved_env.py'}:Walk"
    (result,) = run_checks(task, [BY_NAME["saved_states"]]).results
    assert result.verdict == "skipped" and "cannot be pickled" in result.note


@pytest.mark.parametrize("check", CHECKS)
def test_a_simulator_in_cpp_conforms(counter, check):
    check(counter)


@pytest.mark.nightly
def test_an_atari_game_conforms():
    pytest.importorskip("ale_py")
    report = headrace.testing.check("Pong-v5", steps=40, num_envs=3)
    skipped = {result.name for result in report.results if result.verdict == "skipped"}
    assert skipped <= {"devices", "order_of_agents"}


@pytest.mark.parametrize("task", CAUGHT_BY)
def test_each_broken_environment_fails_the_check_meant_for_it(task):
    (result,) = run_checks(task, [BY_NAME[CAUGHT_BY[task]]]).results
    assert result.verdict == "failed", result.note


@pytest.mark.parametrize("task", rest_nightly(["SoundGame", "TagGridWorld-v0"], "SoundGame"))
def test_games_whose_agents_may_act_in_any_order_pass_the_check(task):
    BY_NAME["order_of_agents"](task)


@pytest.mark.parametrize("task", racy_games.ORDER)
def test_agents_whose_order_matters_are_caught(task):
    with pytest.raises(ConformanceError, match="act in another order must give the same results"):
        BY_NAME["order_of_agents"](task)


def test_agents_that_race_are_caught_with_their_lines():
    with pytest.raises(ConformanceError, match=r"agent 1 writes state.x\[0, 1\], which agent 0 reads") as failure:
        BY_NAME["order_of_agents"]("WriteAfterRead")
    assert str(failure.value).count(f"{racy_games.__file__}:") == 2


@pytest.mark.parametrize("task", sorted({*BROKEN.ENVIRONMENTS} - {*BROKEN.FOUND_FIRST}))
def test_defects_that_only_checks_can_find_pass_the_first_steps(task):
    headrace.make(f"{task}Tried").close()


@pytest.mark.parametrize(("task", "told"), BROKEN.FOUND_FIRST.items())
def test_defects_that_the_first_steps_find_are_errors_before_the_checks(task, told):
    with pytest.raises(KernelError, match=told) as found:
        headrace.testing.check(f"{task}Tried")
    assert "broken.py:" in str(found.value)


@pytest.mark.parametrize("task", rest_nightly(["OutsideSpace", "LateTruncation", "ForgetfulStates"], "LateTruncation"))
def test_a_breach_of_one_rule_fails_one_check(task):
    """A rule with a check of its own is not reported by the other checks, too."""
    report = run_checks(task, CHECKS)
    assert [result.name for result in report.failures] == [CAUGHT_BY[task]]


def test_a_failure_gives_the_expected_value_and_a_call_that_repeats_it():
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


def test_options_reach_the_task_and_invalid_ones_raise_their_own_errors():
    assert not headrace.testing.check("CartPole-v1", max_episode_steps=9, sutton_barto_reward=True).failures
    with pytest.raises(headrace.errors.OptionError, match="no option 'gravity'"):
        headrace.testing.check("Pendulum-v1", gravity=3.0)
    with pytest.raises(UnknownTaskError):
        headrace.testing.check("CartPool-v1")


@pytest.mark.parametrize("few", [{"num_envs": 1}, {"steps": 3}, {"steps": 4.5}])
def test_too_few_environments_or_steps_are_refused(few):
    with pytest.raises(headrace.errors.OptionError, match="must be an integer at least"):
        headrace.testing.check("CartPole-v1", **few)


def test_checks_that_do_not_apply_are_skipped():
    with pytest.raises(NotApplicable, match="no rendering"):
        BY_NAME["rendering"]("UnseenWalk")
    with pytest.raises(NotApplicable, match="one agent"):
        BY_NAME["order_of_agents"]("SoundWalk")
    if not wp.is_cuda_available():
        with pytest.raises(NotApplicable, match="no CUDA device"):
            BY_NAME["devices"]("CartPole-v1")


@pytest.mark.parametrize("task", ["CartPole-v1", "TagGridWorld-v0"])
def test_results_as_tensors_are_compared_like_arrays(task):
    """The comparison of the check `devices`, with torch's tensors on the CPU in place of a GPU."""
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


def test_autoreset_checks_are_skipped_for_games_that_go_on_after_a_lost_life():
    pytest.importorskip("headrace_atari._atari")
    checks = [autoreset_next_step, autoreset_same_step, autoreset_disabled]
    report = run_checks("Breakout-v5", checks, steps=40, episodic_life=True, max_episode_steps=200)
    assert [result.verdict for result in report.results] == ["skipped", "skipped", "passed"]
    assert "plays on in the same game" in report.results[0].note
