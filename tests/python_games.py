"""Environments that are plain Python objects, as Gymnasium has them, for tests: all can be saved, seeded, imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

COUNT, NESTED, TABLE = (f"{__file__}:{name}" for name in ("Count", "Nested", "Table"))


class Sparkling(gym.Env):
    """Draws sparks that go out as they are drawn; with ``chance`` some that nobody could foresee."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(self, chance: bool = False, render_mode: str | None = None):
        self.chance, self.render_mode = chance, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.sparks = 0, 100
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count, self.sparks = self.count + 1, 100
        return np.full(1, self.count, np.float32), float(action), self.count == 9, False, {}

    def render(self) -> Any:
        self.sparks -= 1
        return np.full((2, 4, 3), os.urandom(1)[0] if self.chance else self.sparks, np.uint8)


class Count(gym.Env):
    """Adds its actions up, from a drawn beginning; an episode lasts ``length`` steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = gym.spaces.Discrete(1000)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(self, length: int = 8, render_mode: str | None = None):
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.sum, self.drawn = 0, 0, float(self.np_random.random())
        return self._seen(), {"drawn": self.drawn}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.sum += int(action)
        return self._seen(), float(action), self.count >= self.length, False, self._said()

    def _seen(self) -> Any:
        return np.array([self.count, self.sum, self.drawn, self.length], np.float64)

    def _said(self) -> dict[str, Any]:
        return {"even": True, "nested": {"sum": self.sum}} if self.sum % 2 == 0 else {}

    def render(self) -> Any:
        return np.full((2, 4, 3), self.count % 256, np.uint8) if self.render_mode == "rgb_array" else None


class Nested(Count):
    """The same in nested dicts and tuples, with a word, and with a dict of actions."""

    observation_space = gym.spaces.Dict(  # type: ignore[assignment]
        {
            "numbers": gym.spaces.Tuple((gym.spaces.Box(0, 1, (1,), np.float32), gym.spaces.Discrete(1000))),
            "inner": gym.spaces.Dict({"bits": gym.spaces.MultiBinary(3), "word": gym.spaces.Text(8)}),
        }
    )
    action_space = gym.spaces.Dict(  # type: ignore[assignment]
        {
            "add": gym.spaces.Discrete(3),
            "also": gym.spaces.Tuple((gym.spaces.MultiDiscrete([2, 3]), gym.spaces.Box(-1, 1, (2,), np.float32))),
        }
    )

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return super().step(action["add"] + action["also"][0].sum())

    def _seen(self) -> Any:
        bits = np.array([self.count & 1, self.count >> 1 & 1, self.count >> 2 & 1], np.int8)
        numbers = np.array([self.drawn], np.float32), self.sum
        return {"numbers": numbers, "inner": {"bits": bits, "word": f"n{self.count}"}}


class Table(Count):
    """The same with a table that all environments have alike; each adds its process to the file ``log`` when made."""

    def __init__(self, rows: int = 1, log: str = "", render_mode: str | None = None):
        super().__init__(render_mode=render_mode)
        self.table = np.random.default_rng(0).random(rows)
        if log:
            with Path(log).open("a") as file:
                file.write(f"{os.getpid()}\n")
