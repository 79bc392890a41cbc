"""Environments start processes of their own in worker processes, as simulators and vector environments do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.pool.fork_server import OURS

PATIENCE = 20.0  # seconds


def sleep(start: Any) -> None:
    start.send(os.getpid())
    time.sleep(1000)


class Parent(gym.Env):
    """Starts a process that does not end by itself, and observes its process id."""

    observation_space = gym.spaces.Box(0, 2**31 - 1, (1,), np.int64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, method: str | None = None):
        context = multiprocessing.get_context(method)
        told, tell = context.Pipe(duplex=False)
        self.child = context.Process(target=sleep, args=(tell,), daemon=True)  # type: ignore[attr-defined]
        self.child.start()
        assert told.poll(PATIENCE)
        self.pid = told.recv()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.array([self.pid]), {}

    def step(self, action: Any) -> Any:
        return np.array([self.pid]), 1.0, False, False, {}

    def close(self) -> None:
        if not multiprocessing.current_process().name.startswith(OURS):  # in workers it forgets to end its child
            self.child.kill()


class Fleet(Parent):
    """Steps Gymnasium's environments in processes of their own."""

    def __init__(self):
        self.envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="async")
        self.envs.reset(seed=1)
        self.pid = os.getpid()

    def step(self, action: Any) -> Any:
        rewards = self.envs.step(self.envs.action_space.sample())[1]
        return np.array([self.pid]), float(rewards.sum()), False, False, {}

    def close(self) -> None:
        self.envs.close()


class Nested(Fleet):
    """Has a pool of Headrace's."""

    def __init__(self):
        self.envs: Any = headrace.make("gymnasium:CartPole-v1", num_envs=2, seed=1)
        self.envs.reset()
        self.pid = os.getpid()

    def step(self, action: Any) -> Any:
        rewards = self.envs.step([0, 0])[1]
        return np.array([self.pid]), float(rewards.sum()), False, False, {}


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_gone(pid: int) -> bool:
    until = time.monotonic() + PATIENCE
    while is_there(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_there(pid)


def test_child_processes_of_environments_end_with_the_pool() -> None:
    with headrace.make(Parent, num_envs=2, num_threads=1) as pool:
        obs, _ = pool.reset()
        children = obs[:, 0].tolist()
        assert all(map(is_there, children)) and len({*children}) == 2
    assert all(map(is_gone, children))


def test_child_processes_of_environments_end_with_the_program() -> None:
    def program(tell: Any) -> None:
        pool = headrace.make(Parent, num_envs=1)
        tell.send(int(pool.reset()[0][0, 0]))
        time.sleep(1000)

    context = multiprocessing.get_context("fork")
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=program, args=(tell,))
    process.start()
    try:
        assert told.poll(PATIENCE)
        child = told.recv()
        assert is_there(child)
    finally:
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    assert is_gone(child)


@pytest.mark.parametrize("kind", [Fleet, Nested])
def test_environments_that_run_vector_environments_or_pools_can_be_stepped(kind: Any) -> None:
    with headrace.make(kind, num_envs=1) as pool:
        pool.reset()
        for _ in range(3):
            assert pool.step([0])[1].tolist() == [2.0]
