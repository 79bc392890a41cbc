"""Gymnasium environments that tests of pools in processes step, and how their results are compared."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np


class Counter(gym.Env):
    """Counts its steps; an episode has ``length`` of them. Its observation has several kinds of space at once."""

    observation_space = gym.spaces.Dict(
        {
            "count": gym.spaces.Box(0, 1000, (2,), np.float32),
            "inner": gym.spaces.Tuple((gym.spaces.Discrete(1000), gym.spaces.MultiBinary(3))),
            "name": gym.spaces.Text(8),
        }
    )
    action_space = gym.spaces.Dict({"a": gym.spaces.Discrete(5), "b": gym.spaces.Box(-1, 1, (2,), np.float64)})

    def __init__(self, length: int = 4):
        self.length, self.count = length, 0
        self.acted: list[Any] = []

    def _seen(self) -> dict[str, Any]:
        count = self.count
        return {
            "count": np.array([count, self.length], np.float32),
            "inner": (count, np.array([count & 1, count >> 1 & 1, count >> 2 & 1], np.int8)),
            "name": f"n{count}",
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._seen(), {"drawn": int(self.np_random.integers(1000))}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        if action["a"] == 4 and self.count == 2:
            raise ZeroDivisionError("this one was asked to fail")
        self.count += 1
        self.acted.append(action)
        over = self.count >= self.length
        info = {"even": self.count % 2 == 0, "nested": {"count": self.count}}
        return self._seen(), float(self.count), over, False, info if self.count > 1 else {}


class Sleeper(gym.Env):
    """Sleeps for as many milliseconds as the action says."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(100_000)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == 99_999:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(int(action) / 1000)
        return np.ones(1, np.float32), 1.0, False, False, {}


class Odd(Sleeper):
    """Returns from `step` the values it was made with, all but the observation."""

    def __init__(self, given: Any = None):
        self.given = given

    def step(self, action: Any) -> Any:
        obs, *_ = super().step(0)
        return obs, *(self.given[int(action)] if isinstance(self.given, list) else self.given)


def same(ours: Any, theirs: Any) -> None:
    """Asserts that two results are equal; theirs may have wider dtypes and fewer keys."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        for key, value in theirs.items():
            same(ours[key], value)
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        np.testing.assert_array_equal(ours, theirs)


def actions(rows: int, a: int = 0) -> dict[str, np.ndarray]:
    return {"a": np.full(rows, a), "b": np.linspace(-1, 1, 2 * rows).reshape(rows, 2)}


ONE = Sleeper()


def the_only_one() -> Sleeper:
    """The same environment in each call."""
    return ONE
