"""Checkpoints are written beside training: nobody waits for a disk, and nothing that goes wrong there is lost."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.train.logging.dashboard import Dashboard
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runners.saver import Writing
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder

OPTIONS: dict[str, Any] = {
    "algo": "sac", "samplers": 1, "num_envs": 4, "hidden": (8,), "total_steps": 1500, "learning_starts": 200,
    "replay_ratio": 0.1, "evaluate_episodes": 0, "stop_at_return": None, "viewer": False, "tensorboard": False,
    "video": False, "checkpoint_seconds": 0.0,
}  # fmt: skip


def begun(folder: Path, **changes: Any) -> Any:
    config = make_config("Pendulum-v1", **(OPTIONS | changes))
    return make_trainer(config, RunFolder.create(folder, config))


def test_jobs_are_done_in_order_and_the_newest_of_a_name_counts():
    writing, go, done = Writing(), threading.Event(), list[str]()
    writing.start("first", lambda: (go.wait(), done.append("first")))
    writing.start("best", lambda: done.append("an older best"))
    writing.start("next", lambda: done.append("next"))
    writing.start("best", lambda: done.append("best"))
    assert writing.busy and not done
    go.set()
    writing.wait()
    assert done == ["first", "best", "next"] and not writing.busy


def test_a_failed_job_raises_at_the_next_question():
    writing, go = Writing(), threading.Event()

    def fail() -> None:
        go.wait()
        raise OSError("no space left")

    writing.start("first", fail)
    writing.start("second", lambda: pytest.fail("it was begun"))
    go.set()
    with pytest.raises(OSError, match="no space"):
        writing.wait()
    writing.wait()
    writing.start("third", lambda: None)
    writing.wait()


def test_learning_goes_on_while_a_slow_disk_takes_its_time(tmp_path, monkeypatch):
    trainer = begun(tmp_path)
    flush, seen = os.fsync, list[tuple[int, int]]()

    def slow(descriptor: int) -> None:
        """No flush ends before the learner has gone on, unless it is over."""
        if threading.current_thread() is not threading.main_thread() and not trainer.finished():
            before = trainer.learner.updater.updates
            while trainer.learner.updater.updates == before and not trainer.finished():
                threading.Event().wait(0.001)
            seen.append((before, trainer.learner.updater.updates))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    try:
        assert trainer.train(Dashboard(quiet=True)) == "finished"
    finally:
        trainer.close()
    assert any(after > before for before, after in seen)
    newest = checkpoints.newest(tmp_path / "checkpoints")
    assert newest is not None
    run, config = RunFolder.open(tmp_path)
    again: Any = make_trainer(config, run, checkpoints.load(newest))
    try:
        assert again.step == trainer.step and again.policies[0].caveat is None
        assert 0 < again.learner.memory.held <= again.step
    finally:
        again.close()


def test_a_disk_that_fails_ends_the_run(tmp_path, monkeypatch):
    trainer = begun(tmp_path, total_steps=10**9, replay_ratio=None)

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(checkpoints, "save", full)
    try:
        with pytest.raises(OSError, match="no space"):
            trainer.train(Dashboard(quiet=True))
    finally:
        trainer.close()
