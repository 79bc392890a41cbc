"""Whole runs: they learn, they resume bit for bit, and they leave the promised files."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import OptionError, UnknownTaskError
from headrace.train import Result, resume
from headrace.train.play.evaluate import evaluate
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run, facts, start, wait_for_lines

train: Any = headrace.train  # the module itself, called; a type checker sees a module only
TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "Pendulum-v1": {"normalise_observations": True, "normalise_rewards": True},
    "MinAtar-Breakout-v1": {"algo": "ppo", "env_options": {"max_episode_steps": 20}},
}
STOPPED = [(task, how) for task in TASKS for how in (signal.SIGKILL, signal.SIGINT)]


@pytest.mark.parametrize(("task", "how"), rest_nightly(STOPPED, STOPPED[0], STOPPED[3]))
def test_a_stopped_run_continues_as_if_left_alone(tmp_path, task, how):
    options = SMALL | TASKS[task] | {"epochs": 2, "log_steps": 1, "anneal_learning_rate": False}
    process = start(task, tmp_path / "stopped", options | {"total_steps": 100_000_000})
    wait_for_lines(tmp_path / "stopped", 8)
    os.kill(process.pid, how)
    code = process.wait(60)
    assert code == (0 if how == signal.SIGINT else -signal.SIGKILL)
    lines = facts(tmp_path / "stopped")
    total_steps = lines[-1]["step"] + 1000
    assert resume(tmp_path / "stopped", quiet=True, total_steps=total_steps).reason == "finished"
    train(task, run_dir=tmp_path / "alone", quiet=True, **(options | {"total_steps": total_steps}))
    assert 8 <= len(lines) < len(facts(tmp_path / "alone"))
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("Pendulum-v1", {"normalise_observations": True, "normalise_rewards": True}),
        ("Pendulum-v1", {"algo": "sac", "samplers": 0, "hidden": (8,), "replay_ratio": 0.05, "learning_starts": 200}),
    ],
)
def test_a_run_can_be_begun_again_from_its_first_checkpoint(tmp_path, task, options):
    options = SMALL | {"total_steps": 1500, "checkpoint_seconds": 1e9, "keep_checkpoints": 2} | options
    train(task, run_dir=tmp_path / "alone", quiet=True, **options)
    shutil.copytree(tmp_path / "alone", tmp_path / "again")
    _, last = sorted((tmp_path / "again" / "checkpoints").glob("step-*"))
    shutil.rmtree(last)
    resume(tmp_path / "again", quiet=True)
    assert len(facts(tmp_path / "alone")) > 1
    assert_same_run(tmp_path / "alone", tmp_path / "again")


def test_runs_of_one_seed_are_equal_and_runs_of_two_seeds_differ(tmp_path):
    short = SMALL | {"total_steps": 1000}
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train("CartPole-v1", run_dir=tmp_path / name, seed=seed, quiet=True, **short)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert facts(tmp_path / "a") != facts(tmp_path / "c")


def test_an_asynchronous_pool_gives_the_same_run(tmp_path):
    """Groups that take turns: every environment contributes T steps, with the noise that belongs to it."""
    short = SMALL | {"total_steps": 128, "log_steps": 1}
    train("CartPole-v1", run_dir=tmp_path / "sync", quiet=True, **short)
    train("CartPole-v1", run_dir=tmp_path / "async", quiet=True, batch_size=4, **short)
    (one,), (two,) = facts(tmp_path / "sync"), facts(tmp_path / "async")
    assert one["episodes"] == two["episodes"]
    assert one["return"] == two["return"]
    for name, value in one["loss"].items():
        assert value == pytest.approx(two["loss"][name], rel=1e-3, abs=1e-5), name


def test_an_asynchronous_run_resumes(tmp_path):
    options = SMALL | {"batch_size": 4, "total_steps": 1024}
    train("Pendulum-v1", run_dir=tmp_path / "alone", quiet=True, **options)
    train("Pendulum-v1", run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 512}))
    resume(tmp_path / "stopped", quiet=True, total_steps=1024)
    assert facts(tmp_path / "stopped")[-1]["step"] == facts(tmp_path / "alone")[-1]["step"]


def test_an_atari_run_resumes_exactly(tmp_path):
    """Images, the convolutional network, the game's own scores, and an emulator's state."""
    pytest.importorskip("headrace_atari._atari")
    options = SMALL | {"num_envs": 2, "num_steps": 8, "minibatch_size": 8, "epochs": 1, "log_steps": 1}
    options |= {"anneal_learning_rate": False, "torch_threads": 1, "total_steps": 48}
    train("Breakout-v5", "ppo", run_dir=tmp_path / "alone", quiet=True, **options)
    train("Breakout-v5", "ppo", run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 32}))
    resume(tmp_path / "stopped", quiet=True, total_steps=48)
    assert len(facts(tmp_path / "alone")) == 3
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")


def test_cartpole_is_learnt(tmp_path):
    result = train(
        "CartPole-v1", run_dir=tmp_path / "run", seed=1, quiet=True, total_steps=200_000, stop_at_return=150.0
    )
    assert isinstance(result, Result)
    assert result.reason == "solved"
    assert result.mean_return is not None
    assert result.mean_return >= 150
    assert result.video is not None
    assert result.video.stat().st_size > 1000
    assert result.plot is not None
    assert result.plot.is_file()
    played = evaluate(result.run_dir, 8)
    assert len(played.returns) == 8
    assert played.mean_return == np.mean(played.lengths) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("how", [{"algo": "a2c"}, {"network": "gru"}])
def test_cartpole_is_learnt_with_other_settings(tmp_path, how):
    result = train(
        "CartPole-v1",
        run_dir=tmp_path,
        seed=1,
        quiet=True,
        total_steps=200_000,
        stop_at_return=150.0,
        video=False,
        **how,
    )
    assert result.reason == "solved"


def test_train_trains_a_task_by_its_name(tmp_path):
    result = train("Acrobot-v1", run_dir=tmp_path / "run", quiet=True, **(SMALL | {"total_steps": 300}))
    assert result.reason == "finished"
    assert result.steps >= 300


def test_train_with_resume_goes_on(tmp_path):
    options = SMALL | {"total_steps": 1000}
    first = train("CartPole-v1", run_dir=tmp_path / "run", quiet=True, resume=True, **options)
    second = train(
        "CartPole-v1", run_dir=tmp_path / "run", quiet=True, resume=True, **(options | {"total_steps": 2000})
    )
    assert first.steps < second.steps
    assert [line["step"] for line in facts(tmp_path / "run")] == sorted(
        {line["step"] for line in facts(tmp_path / "run")}
    )


def test_mistakes_are_named(tmp_path):
    train("CartPole-v1", run_dir=tmp_path / "run", quiet=True, **(SMALL | {"total_steps": 200}))
    with pytest.raises(OptionError, match="already holds a run"):
        train("CartPole-v1", run_dir=tmp_path / "run", quiet=True)
    with pytest.raises(OptionError, match="num_envs"):
        resume(tmp_path / "run", quiet=True, num_envs=4)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="is not a run folder"):
        resume(tmp_path / "nothing", quiet=True)
    with pytest.raises(OptionError, match="cnn"):
        train("CartPole-v1", run_dir=tmp_path / "cnn", quiet=True, **(SMALL | {"network": "cnn"}))
    with pytest.raises(OptionError, match="device"):
        train("CartPole-v1", run_dir=tmp_path / "device", quiet=True, device="abacus", **SMALL)
    with pytest.raises(UnknownTaskError):
        train("CartPoke-v1", run_dir=tmp_path / "task", quiet=True)


def test_a_task_without_pictures_trains_and_has_no_video(tmp_path):
    """The fault would show after the last step, when everything was learnt."""
    cart = importlib.import_module("headrace.envs.classic_control.cartpole")
    task = cart.TASKS["CartPole-v1"]
    headrace.register("TestUnseen-v0", replace(task, env=replace(cart.ENV, render=None)), replace=True)
    result = train(
        "TestUnseen-v0", run_dir=tmp_path / "run", quiet=True, **(SMALL | {"total_steps": 300, "video": True})
    )
    assert result.reason == "finished" and result.video is None


def test_a_run_that_is_over_leaves_no_objects(tmp_path):
    left = []
    for number in range(4):
        train("CartPole-v1", run_dir=tmp_path / f"{number}", quiet=True, **(SMALL | {"total_steps": 256}))
        gc.collect()
        left.append(len(gc.get_objects()))
    assert left[3] <= left[2] <= left[1] + 1  # the first one imports
