"""Environments that are plain Python objects, as Gymnasium has them, for tests: all can be saved, seeded, imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

COUNT, NESTED, SCALAR, NEWEST_FIRST, CLOCK, PLUS_OR_MINUS, TABLE = (
    f"{__file__}:{name}" for name in ("Count", "Nested", "Scalar", "NewestFirst", "Clock", "PlusOrMinus", "Table")
)


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


class Scalar(gym.Env):
    """A number that is pushed towards 0; observations and actions are numbers, arrays of shape ()."""

    observation_space = gym.spaces.Box(-9, 9, (), np.float32)
    action_space = gym.spaces.Box(-1, 1, (), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.count = self.np_random.uniform(-1, 1), 0
        return np.array(self.place, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert np.shape(action) == () and -1 <= action <= 1
        self.count, self.place = self.count + 1, np.clip(self.place + float(action), -9, 9)
        return np.array(self.place, np.float32), -abs(self.place), False, self.count == 8, {}


class NewestFirst(gym.Env):
    """Images with the newest first, and black ones before an episode's first."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, frame_stack: int = 1):
        self.observation_space = gym.spaces.Box(0, 255, (frame_stack, 36, 36), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seen, self.count = np.zeros(self.observation_space.shape or (), np.uint8), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self._seen(), 1.0, self.count == 7, False, {}

    def _seen(self) -> Any:
        self.seen = np.concatenate([np.full_like(self.seen[:1], self.count + 10), self.seen[:-1]])
        return self.seen


class Clock(gym.Env):
    """Shows a time in seconds since 1970, drawn anew in each step, and the same time around 0."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, kind: str = "float64"):
        bound = np.inf if kind == "float64" else 2**31 - 1
        self.observation_space: Any = gym.spaces.Box(-bound, bound, (2,), np.dtype(kind).type)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self._seen(), float(action[0]), False, self.count == 10, {}

    def _seen(self) -> Any:
        seconds = round(100 * self.np_random.normal())
        return np.array([1_700_000_000 + seconds, seconds], self.observation_space.dtype)


class PlusOrMinus(gym.Env):
    """Rewards are 1 in all steps of an episode, or -1."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.sign = 0, float(self.np_random.choice((-1, 1)))
        return np.full(1, self.sign, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.full(1, self.sign, np.float32), self.sign, False, self.count == 40, {}


class Table(Count):
    """The same with a table that all environments have alike; each adds its process to the file ``log`` when made."""

    def __init__(self, rows: int = 1, log: str = "", render_mode: str | None = None):
        super().__init__(render_mode=render_mode)
        self.table = np.random.default_rng(0).random(rows)
        if log:
            with Path(log).open("a") as file:
                file.write(f"{os.getpid()}\n")
