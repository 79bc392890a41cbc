"""Rendering of environments in processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simple_envs import Sleeper

import headrace
from headrace.errors import RenderError


class Drawn(Sleeper):
    """Draws its number of steps, if it was told that somebody looks."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (Gymnasium's own convention)
    render_mode = None
    steps = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return super().step(action)

    def render(self) -> Any:
        return np.full((2, 4, 3), self.steps, np.uint8) if self.render_mode == "rgb_array" else None


class Undrawn(Sleeper):
    """Could draw, had it been made for it."""

    def render(self) -> Any:
        raise AttributeError("Unexpected mode: None")


def test_pictures_are_drawn_for_who_asks() -> None:
    with headrace.make(Drawn, num_envs=3, num_threads=2) as pool:
        pool.reset()
        pool.step(np.zeros(2, np.int64), [0, 2])
        pool.step(np.zeros(1, np.int64), [2])
        frames = pool.render([2, 1, 0])
        assert frames.shape == (3, 2, 4, 3) and frames[:, 0, 0, 0].tolist() == [2, 0, 1]
    with headrace.make(Sleeper, num_envs=1) as pool:
        pool.reset()
        with pytest.raises(RenderError, match="draws no frames"):
            pool.render()


def test_what_render_raises_says_why_there_are_no_frames_and_harms_nothing() -> None:
    with headrace.make(Undrawn, num_envs=2, num_threads=1) as pool:
        pool.reset()
        with pytest.raises(RenderError, match="draws no frames: its render raised AttributeError: Unexpected mode"):
            pool.render()
        pool.step(np.zeros(2, np.int64))
