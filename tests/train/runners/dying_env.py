"""An environment whose process is killed when a file asks for it, as by a simulator's segmentation fault."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

DYING = f"{__file__}:Dying"


class Dying(gym.Env):
    """Shows a number that names its episode, and counts its steps; an episode lasts 50.

    Args:
        orders: a folder; the process ends at the first step for which it can take a file out of it.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, orders: str = "", continuous: bool = False):
        self.orders = orders
        self.action_space = gym.spaces.Box(-1, 1, (1,)) if continuous else gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.name, self.count = float(self.np_random.integers(1 << 20)), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.count > 5:
            for order in Path(self.orders).glob("die-*") if self.orders else ():
                with suppress(FileNotFoundError):  # another one follows it
                    order.unlink()
                    signal.raise_signal(signal.SIGSEGV)
        self.count += 1
        return self._seen(), 1.0, self.count == 50, False, {}

    def _seen(self) -> Any:
        return np.array([self.name, self.count], np.float32)
