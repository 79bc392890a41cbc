"""Environments with goals, for tests of hindsight."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class BitFlip(gym.Env):
    """As in Andrychowicz et al. 2017: an action flips one bit, and -1 is earned until the bits are as desired."""

    def __init__(self, bits: int = 8):
        self.bits = bits
        part = gym.spaces.Box(0, 1, (bits,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": part, "achieved_goal": part, "desired_goal": part})
        self.action_space = gym.spaces.Discrete(bits)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.state, self.goal = self.np_random.integers(0, 2, (2, self.bits)).astype(np.float32)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        self.state[action] = 1 - self.state[action]
        self.steps += 1
        reward = float(self.compute_reward(self.state, self.goal, {}))
        over = bool(self.compute_terminated(self.state, self.goal, {}))
        return self._seen(), reward, over, self.steps >= self.bits, {}

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> np.ndarray:
        return (achieved == desired).all(-1).astype(np.float32) - 1

    def compute_terminated(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> np.ndarray:
        return (achieved == desired).all(-1)

    def _seen(self) -> dict[str, np.ndarray]:
        return {"observation": self.state.copy(), "achieved_goal": self.state.copy(), "desired_goal": self.goal.copy()}


class OneGoalAtATime(BitFlip):
    """Its rewards are those of one pair of goals only."""

    def compute_reward(self, achieved: Any, desired: Any, info: dict) -> Any:
        if len(achieved) != self.bits:
            raise ValueError("one pair, please")
        return 0.0 if list(achieved) == list(desired) else -1.0


class NoGoals(BitFlip):
    """It cannot say what other goals would earn."""

    compute_reward = property()  # type: ignore[assignment]

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        return self._seen(), 0.0, False, True, {}


class Reach(gym.Env):
    """A point in a square, pushed by up to 0.1 a step: -1 is earned while it is farther than 0.15 from its goal."""

    def __init__(self):
        part = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": part, "achieved_goal": part, "desired_goal": part})
        self.action_space = part

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        self.place = np.clip(self.place + 0.1 * action, -1, 1).astype(np.float32)
        self.steps += 1
        return self._seen(), float(self.compute_reward(self.place, self.goal, {})), False, self.steps >= 40, {}

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: dict) -> np.ndarray:
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.15).astype(np.float32)

    def _seen(self) -> dict[str, np.ndarray]:
        return {"observation": self.place.copy(), "achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}
