"""A checkpoint exists whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from headrace.errors import StateError
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint


def make(step: int) -> Checkpoint:
    tensors = {"a": torch.full((3,), float(step)), "scalar": torch.tensor(step)}
    return Checkpoint(tensors, {"m": torch.ones(2)}, checkpoints.pack_blobs([b"one", b"", b"three"]), {"step": step})


def test_round_trip(tmp_path):
    path = checkpoints.save(tmp_path, "step-1", make(5))
    back = checkpoints.load(path)
    assert torch.equal(back.model["a"], torch.full((3,), 5.0))
    assert back.counters == {"step": 5}
    assert checkpoints.unpack_blobs(back.state) == [b"one", b"", b"three"]


def test_the_newest_are_kept(tmp_path):
    for step in (1, 2, 3, 4):
        checkpoints.save(tmp_path, checkpoints.step_name(step), make(step))
    checkpoints.save(tmp_path, checkpoints.BEST, make(2))
    checkpoints.prune(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best", "step-000000000003", "step-000000000004"]
    newest = checkpoints.newest(tmp_path)
    assert newest is not None
    assert checkpoints.load(newest).counters["step"] == 4
    best = checkpoints.best(tmp_path)
    assert best is not None
    assert checkpoints.load(best).counters["step"] == 2


def test_damage_is_a_named_error(tmp_path):
    path = checkpoints.save(tmp_path, "step-1", make(1))
    (path / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(StateError, match="step-1"):
        checkpoints.load(path)
    (path / "state.json").unlink()
    with pytest.raises(StateError, match="step-1"):
        checkpoints.load(path)


WRITER = """
import sys, pathlib, torch
from headrace.train.runs import checkpoint as c
big = {"a": torch.zeros(1_000_000)}
step = 0
while True:
    step += 1
    c.save(pathlib.Path(sys.argv[1]), c.step_name(step), c.Checkpoint(big, big, {}, {"step": step}))
    c.save(pathlib.Path(sys.argv[1]), c.BEST, c.Checkpoint(big, big, {}, {"step": step}))
    c.prune(pathlib.Path(sys.argv[1]), 2)
    print(step, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_complete_checkpoints(tmp_path):
    for round_ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.stdout.readline()
        time.sleep(0.013 * round_)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = sorted(tmp_path.glob("step-*"))
        assert found
        for path in found:
            assert checkpoints.load(path).model["a"].shape == (1_000_000,)
    checkpoints.prune(tmp_path, 2)
    assert not list(tmp_path.glob(".*"))
