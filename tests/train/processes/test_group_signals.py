"""Signals to a run's whole process group, as `timeout`, SLURM, a terminal and systemd send them."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import EnvironmentFailure
from nightly import rest_nightly
from programs import Program

ENVS = """
import gymnasium as gym, subprocess


class Walk(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    most = 10**9

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 50
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        self.most -= 1
        if not self.most:
            raise ValueError("it fell")
        return self.observation_space.sample(), 1.0, False, not self.left, {}


class Reach(Walk):
    action_space = gym.spaces.Box(-1, 1, (1,))


class Engine(Walk):
    '''One whose simulator is a process of its own, which the signal ends.'''

    def __init__(self):
        self.engine = subprocess.Popen(["sleep", "1000"])

    def step(self, action):
        if self.engine.poll() is not None:
            raise RuntimeError("the engine is gone")
        return super().step(action)

    def close(self):
        self.engine.terminate()
        self.engine.wait()


class Falls(Walk):
    most = 700
"""
KINDS = {
    "ppo": ("Walk", "--num-envs", "4", "--num-steps", "32"),
    "sac": ("Reach", "--algo", "sac", "--samplers", "1", "--learning-starts", "100"),
    "devices": ("Walk", "--num-envs", "4", "--devices", "cpu", "cpu"),
    "engines": ("Engine", "--num-envs", "4", "--num-steps", "32"),
}
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CASES = [(kind, each) for kind in KINDS for each in SIGNALS]


def start(folder: Path, kind: str, **options: Any) -> Program:
    """A run that has begun to train."""
    (folder / "envs.py").write_text(ENVS)
    env, *settings = KINDS[kind]
    words = ["-m", "headrace", "train", f"{folder}/envs.py:{env}", *settings, "--run-dir", "run"]
    words += ["--total-steps", "100000000"]
    words += ["--log-steps", "64", "--evaluate-episodes", "0"] if kind == "sac" else ["--log-steps", "64"]
    words += ["--no-viewer", "--no-video", "--no-tensorboard"]
    run = Program([sys.executable, *words], cwd=folder, start_new_session=True, **options)
    metrics, until = folder / "run" / "metrics.jsonl", time.monotonic() + 120
    while not metrics.exists() or metrics.read_text().count("\n") < 2:
        assert run.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    return run


def end_of(folder: Path) -> dict[str, Any]:
    """The last event of the run, which is that of its last checkpoint."""
    events = [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]
    assert (folder / "run" / "checkpoints" / f"step-{events[-1]['step']:012}").is_dir()
    return events[-1]


@pytest.mark.parametrize(("kind", "each"), rest_nightly(CASES, ("ppo", signal.SIGTERM)))
def test_the_run_stops_with_a_checkpoint_and_goes_on(tmp_path: Path, kind: str, each: signal.Signals) -> None:
    """Sent to the process and again to its group, as `timeout` does."""
    run = start(tmp_path, kind, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(random.random())
    os.kill(run.pid, each)
    os.killpg(run.pid, each)
    told = run.communicate(timeout=120)[1]
    assert run.returncode == 130, told
    assert "writes a checkpoint" in told and "Traceback" not in told
    end = end_of(tmp_path)
    assert end["kind"] == "interrupted" and end["step"] > 0, end
    result = headrace.train.resume(tmp_path / "run", total_steps=end["step"] + 1, quiet=True)
    assert (result.reason, result.steps > end["step"]) == ("finished", True)


@pytest.mark.nightly  # what a run writes to a terminal that has just closed may fail it, under load
def test_closing_the_terminal_stops_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    run = start(tmp_path, "ppo", stdout=its, stderr=its)
    os.killpg(run.pid, signal.SIGSTOP)  # what a run writes between the two fails, and the run with it
    os.close(its)
    os.close(ours)
    os.killpg(run.pid, signal.SIGHUP)
    os.killpg(run.pid, signal.SIGCONT)
    assert run.wait(120) in (130, 120)  # Python's own status where last words find no terminal
    assert end_of(tmp_path)["kind"] == "interrupted"


@pytest.mark.parametrize("samplers", rest_nightly([0, 1], 0))
def test_a_run_that_fails_leaves_a_checkpoint_of_the_last_moment(tmp_path: Path, samplers: int) -> None:
    (tmp_path / "envs.py").write_text(ENVS)
    how: dict[str, Any] = {"num_envs": 2, "quiet": True, "video": False, "viewer": False, "tensorboard": False}
    how |= {"algo": "dqn", "samplers": 1, "learning_starts": 100} if samplers else {"num_steps": 32}
    with pytest.raises(EnvironmentFailure, match="it fell"):
        headrace.train.train(f"{tmp_path}/envs.py:Falls", run_dir=tmp_path / "run", total_steps=10_000, **how)
    end = end_of(tmp_path)
    assert (end["kind"], end["step"] > 0) == ("failed", True)
    result = headrace.train.resume(tmp_path / "run", total_steps=end["step"] + 1, quiet=True)
    assert result.reason == "finished"
