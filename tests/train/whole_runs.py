"""Whole runs in tests: settings of a small one, what two of them have in common, and one in a process of its own."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch

from headrace.train.runs.checkpoint import load, newest
from headrace.train.runs.metrics import read_metrics
from programs import Program

SMALL: dict[str, Any] = {
    "num_envs": 8,
    "num_steps": 16,
    "minibatch_size": 32,
    "total_steps": 20_000,
    "log_steps": 500,
    "stop_at_return": None,
    "evaluate_episodes": 0,
    "tensorboard": False,
    "video": False,
    "checkpoint_seconds": 0.0,
    "keep_checkpoints": 1,
}


WITH_SAMPLERS: dict[str, Any] = {
    "samplers": 1, "num_envs": 4, "hidden": (32, 32), "learning_starts": 400, "replay_ratio": 0.2,
    "evaluate_share": 1.0, "viewer": False, "stop_at_return": None, "tensorboard": False, "video": False,
}  # fmt: skip
"""settings of a small run with samplers of a replay"""


def facts(run_dir: Path) -> list[dict]:
    """The metrics without the times, which are all that may differ."""
    return [{k: v for k, v in line.items() if k != "time"} for line in read_metrics(run_dir / "metrics.jsonl")]


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    path = newest(run_dir / "checkpoints")
    assert path is not None
    return load(path).model


def assert_same_run(one: Path, two: Path) -> None:
    assert facts(one) == facts(two)
    a, b = weights(one), weights(two)
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


def stopped_half_way(run: Path, copy: Path) -> None:
    """A copy of a run as it is when it is killed right after one of its checkpoints."""
    shutil.copytree(run, copy)
    saved = sorted((copy / "checkpoints").glob("step-*"))
    for later in (*saved[len(saved) // 2 :], copy / "checkpoints" / "best"):
        shutil.rmtree(later)


def start(task: str, run_dir: Path, options: dict, *, start_new_session: bool = False) -> Program:
    """A run in a process of its own, and in a session of its own as of a terminal, if that is asked for."""
    code = (
        "import sys, json, headrace\nheadrace.train.train(sys.argv[1], run_dir=sys.argv[2], **json.loads(sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, task, str(run_dir), json.dumps(options)]
    return Program(command, start_new_session=start_new_session)


def wait_for_lines(run_dir: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(read_metrics(run_dir / "metrics.jsonl")) < count:
        assert time.monotonic() < deadline, "the run wrote no metrics"
        time.sleep(0.002)
