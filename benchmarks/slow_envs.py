"""Environments whose steps take a known time, spent in computation, for `process_pool.py`."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np


class Busy(gym.Env):
    """Every step keeps a core busy for so many milliseconds, drawn between two bounds.

    Args:
        least, most: the bounds.
        evenly: whether every time between them is as likely, or its logarithm is: short steps are the rule then, and
            long ones the exception.
    """

    observation_space = gym.spaces.Box(0, 1, (8,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, least: float, most: float, evenly: bool = True):
        self.least, self.most, self.evenly = least, most, evenly

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Times of steps, in milliseconds."""
        if self.evenly:
            return np.asarray(rng.uniform(self.least, self.most, shape))
        return np.exp(rng.uniform(np.log(self.least), np.log(self.most), shape))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(8, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        until = time.thread_time() + float(self.draw(self.np_random)) / 1000
        while time.thread_time() < until:
            pass
        return np.ones(8, np.float32), 1.0, False, False, {}
