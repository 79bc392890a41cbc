"""A Gymnasium environment that cannot be pickled."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    """Steps along a line; an episode lasts 11 of them."""

    observation_space = gym.spaces.Box(-20, 20, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.count = float(self.np_random.integers(-3, 4)), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += 1.0 if action else -1.0
        self.count += 1
        return self._seen(), self.place / 10, self.count == 11, False, {}

    def _seen(self) -> np.ndarray:
        return np.array([self.place, self.count], np.float32)
