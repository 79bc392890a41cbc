"""Environments that hang in a step or in `close`, and the messages about them."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from simple_envs import Sleeper

import headrace
from headrace.pool.executors.processes import dispatch
from headrace.pool.remarks import heard_by
from programs import Program


class Lingers(Sleeper):
    """Never closes."""

    def close(self) -> None:
        time.sleep(1000)


def test_a_long_step_is_reported_once_with_its_environments(
    make: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dispatch, "STILL", 0.3)
    pool = make(Sleeper, num_envs=4, num_threads=2, seed=1)
    pool.reset()
    heard: list[str] = []
    with heard_by(heard.append):
        pool.step(np.array([0, 0, 900, 0]))
        pool.step(np.array([0, 0, 900, 0]))
    assert len(heard) == 1
    assert "Sleeper: environments 2 to 3 in process" in heard[0] and "worker_timeout" in heard[0]
    assert capfd.readouterr().err == f"headrace: {heard[0]}\n"


def test_idle_time_does_not_count_towards_worker_timeout(make: Any) -> None:
    pool = make(Sleeper, num_envs=2, num_threads=2, seed=1, worker_timeout=0.6)
    pool.reset()
    pool.step(np.array([0, 300]))
    time.sleep(0.7)
    assert pool.step(np.array([300, 0]))[0].shape == (2, 1)


def test_an_environment_that_never_closes_does_not_block_the_close_of_its_pool(
    capfd: pytest.CaptureFixture[str],
) -> None:
    began = time.monotonic()
    pool = headrace.make(Lingers, num_envs=1, seed=1)
    pool.reset()
    pool.close()
    assert time.monotonic() - began < 100
    # a process that starts slowly is reported, too
    first, second = (line for line in capfd.readouterr().err.splitlines() if "close" in line)
    assert first == "headrace: close() of Lingers did not end within 2 s; nothing waits for it any more"
    assert second == "headrace: Lingers: environment 0 did not close within 2 s; the process was ended"


def test_an_error_in_close_becomes_a_warning() -> None:
    class Raises(Sleeper):
        def close(self) -> None:
            raise ValueError("not now")

    with pytest.warns(UserWarning, match="raised ValueError: not now"):
        assert isinstance(headrace.make_spec(Raises).action_space, gym.spaces.Discrete)


PROGRAM = """
import time
import gymnasium as gym
import headrace


class Hangs(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Box(-1, 1)

    def reset(self, *, seed=None, options=None):
        time.sleep(1000)


pool = headrace.make(Hangs, num_envs=2)
pool.async_reset()
print("begun", flush=True)
"""


def test_a_program_ends_while_its_environments_hang() -> None:
    """The program does not close its pool."""
    with Program([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as program:
        assert program.communicate(timeout=60)[0] == "begun\n"
    assert program.returncode == 0
