"""Pictures of environments for videos and pages: small plain ones of robots, enlarged ones of small games."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from headrace.pool.registry import build_task
from headrace.train.config.settings import Config

SMALLEST_HEIGHT = 240  # smaller frames (Atari's are 210 x 160) are enlarged by a whole factor
PIXELS = 240  # width and height for tasks with these options, as software rendering takes long for each pixel
EFFECTS = "render_effects"
SIDES = ("render_width", "render_height")
SMALL = 320  # maximum width and height, in pixels, with which several environments are shown side by side
TILES = 4  # number of environments side by side
GAP = 2  # pixels around each frame
QUALITY = 85  # quality of JPEGs


def plain(config: Config) -> dict[str, Any]:
    """Returns the option that turns off shadows and reflections, which take most of a CPU's time, unless it is set."""
    options = build_task(config.task, **config.env_options).spec.options
    return {} if EFFECTS not in options or EFFECTS in config.env_options else {EFFECTS: False}


def small(config: Config) -> dict[str, Any]:
    """Returns options of the run's task that make its pictures small and plain, without those that the run sets."""
    chosen = plain(config)
    if not config.env_options.keys() & {*SIDES, "width", "height"}:
        options = build_task(config.task, **config.env_options).spec.options
        chosen |= {side: PIXELS for side in SIDES if side in options}
    return chosen


def enlarged(frame: np.ndarray) -> np.ndarray:
    """Returns a frame uint8[height, width, 3], enlarged by an integer factor to at least `SMALLEST_HEIGHT` pixels."""
    factor = max(1, -(-SMALLEST_HEIGHT // frame.shape[0]))
    return frame.repeat(factor, 0).repeat(factor, 1) if factor > 1 else frame


def side_by_side(frames: np.ndarray) -> np.ndarray:
    """Returns frames uint8[k, height, width, 3] as one, in about as many rows as columns, with black gaps."""
    if len(frames) > 1:
        frames = np.pad(frames, ((0, 0), (GAP, GAP), (GAP, GAP), (0, 0)))
    columns = math.ceil(math.sqrt(len(frames)))
    rows = -(-len(frames) // columns)
    missing = np.zeros((rows * columns - len(frames), *frames.shape[1:]), np.uint8)
    tiles = np.concatenate((frames, missing)).reshape(rows, columns, *frames.shape[1:])
    return tiles.swapaxes(1, 2).reshape(rows * frames.shape[1], columns * frames.shape[2], 3)


def halved(frames: np.ndarray) -> np.ndarray:
    """Returns frames uint8[k, height, width, 3] of half the size, each pixel the mean of four."""
    k, height, width = frames.shape[:3]
    even = frames[:, : height // 2 * 2, : width // 2 * 2].astype(np.uint16)
    return (even.reshape(k, height // 2, 2, width // 2, 2, 3).sum((2, 4)) // 4).astype(np.uint8)


def jpeg(frame: np.ndarray) -> bytes:
    """Returns a frame uint8[height, width, 3] as a JPEG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
