"""The curve that a run leaves, also one that was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headrace.train.logging.plot import plot_returns
from headrace.train.recipes.make import make_config
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from programs import Program

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")
TRAINING, EVALUATION = (0, 114, 178), (213, 94, 0)


def dots(picture: Path, colour: tuple[int, int, int]) -> int:
    """Pixels of a colour."""
    return int((np.abs(np.asarray(Image.open(picture).convert("RGB")).astype(int) - colour).sum(-1) < 6).sum())


def drawn(folder: Path, lines: list[dict]) -> Path:
    run = RunFolder.create(folder, make_config("Pendulum-v1"))
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return plot_returns(run.path)


def test_a_single_point_is_seen(tmp_path):
    line = {"step": 1_000_000, "return": -300.0, "time": {"seconds": 12.0}}
    assert dots(drawn(tmp_path / "none", []), TRAINING) == 0
    alone = drawn(tmp_path / "one", [line])
    assert dots(alone, TRAINING) > 20 and dots(alone, EVALUATION) == 0
    evaluated = {"return": -200.0, "length": 200.0, "step": 900_000, "version": 3}
    both = drawn(tmp_path / "both", [line | {"evaluation": evaluated}])
    assert dots(both, TRAINING) > 20 and dots(both, EVALUATION) > 20
    only = drawn(tmp_path / "only", [line | {"return": None, "evaluation": evaluated}])
    assert dots(only, TRAINING) == 0 and dots(only, EVALUATION) > 20


CODE = """
import json, sys, headrace
if __name__ == "__main__":
    print(headrace.train(sys.argv[1], run_dir=sys.argv[2], **json.loads(sys.argv[3])).plot)
"""
PPO = {"num_envs": 8, "num_steps": 16, "checkpoint_seconds": 0.0}
SAC = {"algo": "sac", "learning_starts": 100, "samplers": 1, "viewer": False}


def far(run: RunFolder) -> bool:
    newest = checkpoints.newest(run.checkpoints)
    return newest is not None and int(newest.name.removeprefix("step-")) > 3000


def noted_twice(run: RunFolder) -> bool:
    return sum(line["return"] is not None for line in read_metrics(run.metrics_file)) > 1


@pytest.mark.parametrize(
    ("task", "settings", "enough"),
    [("CartPole-v1", PPO, far), pytest.param("Pendulum-v1", SAC, noted_twice, marks=pytest.mark.nightly)],
)
def test_ctrl_c_leaves_a_curve_and_says_how_to_see_more(tmp_path, task, settings, enough):
    """Long before `log_steps` are done."""
    run = RunFolder(tmp_path / "run")
    settings = settings | {"log_steps": 10**9, "total_steps": 10**9, "tensorboard": False, "stop_at_return": None}
    (tmp_path / "script.py").write_text(CODE)
    command = [sys.executable, str(tmp_path / "script.py"), task, str(run.path), json.dumps(settings)]
    process = Program(command, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not enough(run):
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert shown.strip().endswith(str(run.plot_file))
    assert f"headrace play {run.path}" in shown
    assert dots(run.plot_file, TRAINING) > 20
