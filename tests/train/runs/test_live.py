"""The newest weights of a run are written while somebody watches it, and only then."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from headrace.errors import StateError
from headrace.train.logging.dashboard import Dashboard
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs import live
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.live import LiveWeights, read_live
from headrace.train.settings.config import Config

SMALL: dict[str, Any] = {"num_envs": 4, "hidden": [8], "video": False, "tensorboard": False, "stop_at_return": None}
WORKERS: dict[str, Any] = {"samplers": 1, "evaluate_episodes": 0, "viewer": False}
REPLAY: dict[str, Any] = {"learning_starts": 64, "minibatch_size": 16}
RUNS: dict[str, Config] = {
    "ppo": make_config("CartPole-v1", **SMALL),
    "ppo with samplers": make_config("CartPole-v1", **SMALL, **WORKERS),
    "dqn in turn": make_config("CartPole-v1", algo="dqn", samplers=0, **SMALL, **REPLAY),
    "sac": make_config("Pendulum-v1", algo="sac", **SMALL, **WORKERS, **REPLAY),
    "sac with an actor apart": make_config("Pendulum-v1", algo="sac", actor_device="cpu", **SMALL, **WORKERS, **REPLAY),
    "several policies": make_config("TagGridWorld-v0", num_envs=4, video=False, tensorboard=False),
}


class Watching(Dashboard):
    """Touches ``watched``, and ends the run once the live weights are there."""

    def __init__(self, run: RunFolder):
        super().__init__(quiet=True)
        self.run, self.found, self.until = run, None, time.monotonic() + 60

    def update(self, progress, force=False):
        self.run.watched_file.touch()
        self.found = self.found or read_live(self.run.live_file)
        if self.found is not None or time.monotonic() > self.until:
            os.kill(os.getpid(), 2)
            self.update = lambda progress, force=False: None


@pytest.mark.parametrize("name", RUNS)
def test_every_kind_of_run_writes_its_acting_weights(name, tmp_path):
    run = RunFolder.create(tmp_path / "run", RUNS[name])
    trainer: Any = make_trainer(RUNS[name], run, None, ProcessGroup())
    try:
        watching = Watching(run)
        trainer.train(watching)
        assert watching.found is not None
        model, step = watching.found
        assert 0 <= step <= trainer.step
        now = trainer.saver.checkpoint().model
        assert {k: v.shape for k, v in model.items()} == {k: v.shape for k, v in now.items()}
    finally:
        trainer.close()
    assert not run.live_file.exists()  # checkpoints have the newest weights now


def test_weights_are_written_for_a_watcher_alone_and_once_a_second(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "POLL", 0.0)
    writer = LiveWeights(tmp_path / "live.safetensors", tmp_path / "watched")
    models = []

    def model() -> dict[str, torch.Tensor]:
        models.append(1)
        return {"a": torch.arange(3.0)}

    writer.write_if_watched(model, 1)
    (tmp_path / "watched").touch()
    long_ago = time.time() - 60
    os.utime(tmp_path / "watched", (long_ago, long_ago))
    writer.write_if_watched(model, 2)
    assert not models and read_live(tmp_path / "live.safetensors") is None
    (tmp_path / "watched").touch()
    for step in (3, 4):  # at most once a second
        writer.write_if_watched(model, step)
    found = read_live(tmp_path / "live.safetensors")
    assert found is not None and found[1] == 3 and torch.equal(found[0]["a"], torch.arange(3.0)) and len(models) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live.safetensors", "watched"]


def test_a_folder_that_cannot_be_written_ends_nothing():
    live.write_live(Path("/nowhere/live.safetensors"), {"a": torch.zeros(1)}, 1)


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"x" * 100])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "live.safetensors").write_bytes(content)
    with pytest.raises(StateError, match=r"live\.safetensors cannot be read"):
        read_live(tmp_path / "live.safetensors")
