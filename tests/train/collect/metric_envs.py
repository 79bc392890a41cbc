"""Environments that report numbers at the ends of their episodes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Reports(gym.Env):
    """Ends after two, three or four steps in turn, and reports how many they were, in one dict with its last step."""

    observation_space = gym.spaces.Box(0, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, told: str = "all") -> None:
        self.told, self.episode, self.steps = told, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps, self.episode = 0, self.episode + 1
        return np.zeros(2, np.float32), {"is_success": False, "steps": -1.0}

    def step(self, action: Any) -> Any:
        self.steps += 1
        over = self.steps == 2 + self.episode % 3
        info: dict[str, Any] = {"is_success": over and self.steps > 2, "steps": np.float64(self.steps)}
        if self.told == "words":
            info["steps"] = "many"
        if over and self.told == "rarely" and self.episode % 3:
            del info["steps"]
        return np.full(2, self.steps, np.float32), 1.0, over, False, info


class Moves(Reports):
    """The same with a continuous action."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)  # type: ignore[assignment]
