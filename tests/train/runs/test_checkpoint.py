"""A checkpoint exists whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch

from headrace.errors import StateError
from headrace.pool.state import BLOCK
from headrace.train import resume, train
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from nightly import rest_nightly
from programs import Program


def make(step: int) -> Checkpoint:
    tensors = {"a": torch.full((3,), float(step)), "scalar": torch.tensor(step)}
    return Checkpoint(tensors, {"m": torch.ones(2)}, checkpoints.pack_blobs([b"one", b"", b"three"]), {"step": step})


def test_a_saved_checkpoint_is_loaded_equal(tmp_path):
    path = checkpoints.save(tmp_path, "step-1", make(5))
    back = checkpoints.load(path)
    assert torch.equal(back.model["a"], torch.full((3,), 5.0))
    assert back.counters == {"step": 5}
    assert checkpoints.unpack_blobs(back.state) == [b"one", b"", b"three"]


def test_bytes_shared_by_environments_are_stored_once():
    rng, whole = np.random.default_rng(0), 10 * BLOCK
    table = rng.bytes(whole)
    blobs = [rng.bytes(n) + table for n in (17, 0, BLOCK, 3 * BLOCK + 5)] + [b"", b"", b"short", rng.bytes(BLOCK)]
    state = checkpoints.pack_blobs(blobs)
    assert len(state["environments"]) == whole + 17 + 4 * BLOCK + 5 + len(b"short") + BLOCK
    assert checkpoints.unpack_blobs(state) == blobs
    checkpoints.pack_blobs(10 * [table], most=whole)
    with pytest.raises(StateError, match="take more than 160 KiB"):
        checkpoints.pack_blobs([table, b"more"], most=whole)


@pytest.mark.parametrize(
    "change",
    [
        {"environments": lambda tensor: tensor[:-1]},
        {"environment_blocks": lambda tensor: tensor[:-1]},
        {"environment_blocks": lambda tensor: tensor - 1},
        {"environment_blocks": lambda tensor: tensor + 1},
        {"environment_sizes": lambda tensor: tensor + 2**60},
    ],
)
def test_states_that_do_not_fit_together_are_a_named_error(change):
    state = checkpoints.pack_blobs([bytes(5 * BLOCK), b"short", bytes(BLOCK)])
    ((name, spoil),) = change.items()
    with pytest.raises(StateError, match="the states of the environments in the checkpoint are damaged"):
        checkpoints.unpack_blobs(state | {name: spoil(state[name])})


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


@pytest.mark.parametrize("file", ["state.json", "model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", None])
def test_a_damaged_checkpoint_names_its_file_and_the_one_before(tmp_path, file, content):
    for step in (1, 2, 3):
        path = checkpoints.save(tmp_path, f"step-{step}", make(step))
    damaged = tmp_path / "step-2" / file
    if content is None:
        damaged.unlink()
    else:
        damaged.write_bytes(content)
    with pytest.raises(StateError) as told:
        checkpoints.load(damaged.parent)
    assert f"step-2/{file}" in (words := str(told.value)) or f"step-2 is damaged: {file}" in words
    assert words.endswith("; remove this folder to go on from step-1")
    (path / file).write_bytes(b"")
    with pytest.raises(StateError, match="go on from step-2"):
        checkpoints.load(path)


def in_format_1(path):
    """Rewrites a checkpoint as version 0.1 wrote it: without checksums, and without when the replay was empty."""
    (path / "SHA256SUMS").unlink()
    counters = json.loads((path / "state.json").read_text()) | {"format": 1}
    counters.pop("emptied", None)
    (path / "state.json").write_text(json.dumps(counters))


def test_earlier_formats_are_read_and_later_ones_are_named(tmp_path):
    path = checkpoints.save(tmp_path, "step-1", make(1))
    written = checkpoints.load(path)
    in_format_1(path)
    read = checkpoints.load(path)
    assert read.counters == written.counters
    assert all(torch.equal(read.model[name], written.model[name]) for name in written.model)
    (path / "state.json").write_text(json.dumps({"format": 3}))
    with pytest.raises(StateError, match="has format 3; this version reads 1 and 2"):
        checkpoints.load(path)


@pytest.mark.parametrize("samplers", rest_nightly([0, 1], 0))
def test_a_run_with_checkpoints_of_an_earlier_format_is_resumed(tmp_path, samplers):
    settings: dict[str, Any] = {
        "num_envs": 2,
        "minibatch_size": 16,
        "hidden": (16, 16),
        "learning_starts": 200,
        "seed": 1,
    }
    settings |= {"video": False, "tensorboard": False, **({"viewer": False} if samplers else {})}
    train("Pendulum-v1", "td3", run_dir=tmp_path, total_steps=600, samplers=samplers, quiet=True, **settings)
    newest = checkpoints.newest(tmp_path / "checkpoints")
    assert newest is not None
    in_format_1(newest)
    result = resume(tmp_path, total_steps=900, quiet=True)
    assert result.steps >= 900
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] >= 900


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
        writer = Program([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
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
