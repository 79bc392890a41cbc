"""Runs with workers that were stopped and go on: with new episodes, at the pace and the rates that they had."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.train import resume, train
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer, train_in_process
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.workers.samplers import ReplaySampler, RolloutSampler

SETTINGS: dict[str, Any] = {
    "algo": "td3",
    "samplers": 1,
    "num_envs": 4,
    "hidden": (16,),
    "total_steps": 800,
    "learning_starts": 400,
    "replay_ratio": 0.2,
    "evaluate_episodes": 0,
    "stop_at_return": None,
    "viewer": False,
    "tensorboard": False,
    "video": False,
}


def but(**changes: Any) -> dict[str, Any]:
    """The settings above, some of them changed."""
    return SETTINGS | changes


@contextlib.contextmanager
def gone_on(folder: Path) -> Iterator[Any]:
    """The trainer of a run that is resumed; its workers are not started."""
    run, config = RunFolder.open(folder)
    newest = checkpoints.newest(run.checkpoints)
    assert newest is not None
    trainer: Any = make_trainer(config, run, checkpoints.load(newest))
    try:
        yield trainer
    finally:
        trainer.close()


def test_samplers_play_other_episodes_when_a_run_goes_on(tmp_path):
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **SETTINGS)
    with gone_on(tmp_path) as trainer:
        before = int(trainer.learner.memory.arrays["written"][0])
        writer = trainer.learner.memory.writer(0)
        sampler = ReplaySampler(trainer.config, 0, 0, writer, trainer.source.weights, trainer.source.counters)
        for _ in range(40):
            sampler.step()
        sampler.close()
        rows = trainer.learner.memory.arrays["record"]
        first, again = rows[:40, 0], rows[before : before + 40, 0]
        assert (first != 0).any() and not (first[..., :4] == again[..., :4]).all(-1).any()


def test_samplers_of_ppo_play_other_episodes_when_a_run_goes_on(tmp_path):
    settings = but(algo="ppo", num_steps=16)
    settings = {k: v for k, v in settings.items() if k not in ("learning_starts", "replay_ratio")}
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **settings)

    def begins(trainer: Any) -> np.ndarray:
        shared = trainer.learner.memory, trainer.source.weights, trainer.source.counters
        sampler = RolloutSampler(trainer.config, 0, 0, *shared)
        sampler.close()
        return sampler._seen

    with gone_on(tmp_path) as trainer:
        later = begins(trainer)
        trainer.source.counters.begun[0] = 0
        assert not (begins(trainer) == later).all(-1).any()


def test_a_replay_that_was_not_full_enough_is_filled_first(tmp_path):
    config = make_config("Pendulum-v1", **but(learning_starts=5000, total_steps=504))
    train_in_process(config, RunFolder.create(tmp_path, config), None, quiet=True)
    resume(tmp_path, quiet=True, total_steps=2000)
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["updates"] == 0


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All files of a run: when each was written last, and what is in it."""
    return {str(f): (f.stat().st_mtime_ns, f.read_bytes()) for f in sorted(folder.rglob("*")) if f.is_file()}


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("Pendulum-v1", but(evaluate_episodes=2, tensorboard=True)),
        ("Pendulum-v1", but(stop_at_return=-1e4, stop_episodes=1, total_steps=10_000, evaluate_episodes=2)),
        ("CartPole-v1", {"samplers": 1, "total_steps": 500, "tensorboard": True}),
        ("CartPole-v1", {"samplers": 0, "total_steps": 500, "tensorboard": True, "video": True}),
    ],
)
def test_resuming_a_finished_run_changes_nothing(tmp_path, task, settings):
    ended = train(task, run_dir=tmp_path, quiet=True, **({"video": False} | settings))
    before = everything(tmp_path)
    again = resume(tmp_path, quiet=True)
    assert dataclasses.replace(again, seconds=0.0) == dataclasses.replace(ended, seconds=0.0)
    assert everything(tmp_path) == before


@pytest.mark.nightly
def test_stops_do_not_change_the_number_of_updates_of_a_run(tmp_path):
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **but(total_steps=600))
    for total in (700, 900, 1200):
        resume(tmp_path, quiet=True, total_steps=total)
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["updates"] == int(0.2 * (1200 - 400))


def test_a_replay_that_was_lost_is_filled_anew_also_after_the_next_stop(tmp_path):
    settings = but(save_replay=False)
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **settings)
    resume(tmp_path, quiet=True, total_steps=1000)
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["updates"] == int(0.2 * 400)


def test_the_age_of_transitions_goes_on_from_that_before_the_stop(tmp_path):
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **SETTINGS)
    with gone_on(tmp_path) as trainer:
        stored = trainer.learner.memory.arrays["version"].max()
        assert stored > 1
        assert trainer.learner.weights.version >= stored
        with trainer.source.running(False):
            trainer.learner.begin(False)
            trainer.learner.updater.update()
        assert trainer.learner.figures().details["staleness"]["versions"] >= 1


@pytest.mark.parametrize("schedule", [[[0, 1e-2], [800, 1e-4]], [[0, 1e-2], [800, 0.0]]])
def test_the_first_updates_of_a_resumed_run_have_the_rates_of_its_step(tmp_path, schedule):
    settings = but(schedules={"learning_rate": schedule}, replay_ratio=None)
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **settings)
    with gone_on(tmp_path) as trainer:
        rates: list[float] = []
        policy = trainer.policies[0]
        improve = policy.improve
        policy.improve = lambda batch, given, *steps: (  # type: ignore
            rates.append(float(given.learning_rate)),
            improve(batch, given, *steps),
        )[1]
        trainer.learner.begin(False)
        with trainer.source.running(False):
            while not rates:
                trainer.learner.update()
        assert rates[0] == pytest.approx(schedule[1][1])
