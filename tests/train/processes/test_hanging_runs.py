"""Runs whose environment hangs: they say so, and Ctrl-C ends them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.train.processes.interrupt import AGAIN
from nightly import rest_nightly
from programs import Program

ENV = """
import gymnasium as gym, time


class Hangs(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        while self.steps > 300:
            time.sleep(1)
        return self.observation_space.sample(), 1.0, self.steps % 20 == 0, False, {}

    def close(self):
        while self.steps > 300:
            time.sleep(1)
"""
HOW = {
    "in turn": "num_envs=2, num_steps=32, checkpoint_seconds=0.01",
    "with a sampler": "algo='dqn', samplers=1, learning_starts=100, evaluate_episodes=0",
    "on two devices": "num_envs=2, num_steps=32, checkpoint_seconds=0.01, devices=('cpu', 'cpu')",
}
RUN = """
from headrace.pool.executors.processes import dispatch
import headrace.train
if {how!r} == "in turn":
    dispatch.STILL = 2.0
headrace.train.train("{folder}/envs.py:Hangs", run_dir="run", video=False, viewer=False, tensorboard=False, quiet=True,
    total_steps=100000, {settings})
"""


@pytest.mark.parametrize("how", rest_nightly(list(HOW), "in turn"))
def test_a_hanging_run_is_reported_and_a_second_ctrl_c_ends_it(tmp_path: Path, how: str) -> None:
    (tmp_path / "envs.py").write_text(ENV)
    code = RUN.format(how=how, folder=tmp_path, settings=HOW[how])
    with Program([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        told = iter(run.stderr.readline, "")
        assert any("finished no step for" in line and "process" in line for line in told)
        run.send_signal(signal.SIGINT)
        if how != "with a sampler":  # where the run itself does not wait for the environment
            assert any("Ctrl-C again to end at once" in line for line in told)
            time.sleep(2 * AGAIN)
            run.send_signal(signal.SIGINT)
        run.wait(60)
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert any("finished no step for" in event["text"] for event in events if event["kind"] == "warning")
    assert events[-1]["kind"] == "interrupted"
