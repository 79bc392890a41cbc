"""An environment that adapters are tested with; workers import it without the learning libraries."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    """A walk that tells of itself: in an info that is there at some steps only, nested, and at reset."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012
    observation_space = gym.spaces.Dict(
        {"place": gym.spaces.Box(-np.inf, np.inf, (2,), np.float32), "even": gym.spaces.Discrete(2)}
    )
    action_space = gym.spaces.MultiBinary(2)

    def __init__(self, length: int = 5, render_mode: str | None = None):
        self.length, self.render_mode = length, render_mode
        self.count = 0

    def _seen(self) -> dict[str, Any]:
        return {"place": self.place.astype(np.float32), "even": self.count % 2}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.count = self.np_random.normal(size=2), 0
        return self._seen(), {"start": float(self.place[0])}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += action + 0.1 * self.np_random.normal(size=2)
        self.count += 1
        info: dict[str, Any] = {"count": self.count}
        if self.count % 3 == 0:
            info["third"] = {"place": self.place.copy()}
        return self._seen(), float(self.place[0]), bool(self.place.sum() > 5), self.count >= self.length, info

    def render(self) -> np.ndarray:
        return np.full((4, 6, 3), self.count, np.uint8)

    def twice(self, number: int, more: int = 0) -> int:
        return 2 * number + more + self.length
