"""Rendering of environments in processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simple_envs import Sleeper

import headrace
from headrace.errors import RenderError


class Drawn(Sleeper):
    """Draws its number of steps, if its render_mode is "rgb_array"."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (Gymnasium's own convention)
    render_mode = None
    steps = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return super().step(action)

    def render(self) -> Any:
        return np.full((2, 4, 3), self.steps, np.uint8) if self.render_mode == "rgb_array" else None


class Undrawn(Sleeper):
    """Raises in `render`, as it was made without a render mode."""

    def render(self) -> Any:
        raise AttributeError("Unexpected mode: None")


def test_render_gives_the_frames_of_environments_in_the_order_asked() -> None:
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


def test_an_error_in_render_is_reported_and_the_pool_can_still_be_stepped() -> None:
    with headrace.make(Undrawn, num_envs=2, num_threads=1) as pool:
        pool.reset()
        with pytest.raises(RenderError, match="draws no frames: its render raised AttributeError: Unexpected mode"):
            pool.render()
        pool.step(np.zeros(2, np.int64))


class Painted(Sleeper):
    """Draws what it is given."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(self, frame: Any):
        super().__init__()
        self.frame = frame

    def render(self) -> Any:
        return self.frame


WHITE = np.full((2, 4, 3), 255, np.uint8)


@pytest.mark.parametrize(
    "frame",
    [np.dstack([WHITE, WHITE[..., :1] * 0]), WHITE[..., :1], WHITE[..., 0], WHITE / 255, WHITE.astype(np.float32),
     WHITE.astype(np.int64), WHITE > 0, WHITE.astype(np.float64) + 9.0],
    ids=["rgba", "one channel", "grey", "parts", "floats", "int64", "bool", "over 255"],
)  # fmt: skip
def test_frames_of_other_shapes_and_dtypes_become_rgb(frame: np.ndarray) -> None:
    with headrace.make(Painted, frame=frame, num_envs=2) as pool:
        pool.reset()
        drawn = pool.render([0, 1])
        assert drawn.dtype == np.uint8 and np.array_equal(drawn, np.stack([WHITE, WHITE]))


@pytest.mark.parametrize("frame", [WHITE[:0], WHITE[:, :0], np.zeros((3, 5, 7), np.uint8), WHITE.astype(str), [WHITE]])
def test_an_invalid_frame_raises_a_render_error(frame: Any) -> None:
    with headrace.make(Painted, frame=frame, num_envs=1) as pool:
        pool.reset()
        with pytest.raises(RenderError, match=r"Painted draws .*(height, width, 3|but a list)"):
            pool.render()


def test_frames_of_different_sizes_raise_a_render_error() -> None:
    with headrace.make(Painted, frame=WHITE, num_envs=2) as pool:
        pool.reset()
        pool.set_attr("frame", [WHITE, WHITE[:1]])
        with pytest.raises(RenderError, match=r"different sizes: \(2, 4\), \(1, 4\)"):
            pool.render([0, 1])
