"""Pictures that environments draw, in the one form in which pools return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import RenderError


def rgb_frames(task: str, drawn: Sequence[Any]) -> np.ndarray:
    """Returns frames as uint8[k, height, width, 3].

    A frame may have no third dimension or one channel (grey), or a fourth channel, which is left out. Floats of at most
    1 are parts of full brightness; other numbers are limited to 0 … 255.

    Args:
        task: the task's name, for messages.
        drawn: what each of k environments has drawn; a text says why it has not.

    Raises:
        RenderError: something drawn is no such frame, or frames differ in size.
    """
    frames = [_rgb(task, frame) for frame in drawn]
    if len({frame.shape for frame in frames}) > 1:
        raise RenderError(f"{task} draws frames of different sizes: {', '.join(str(f.shape[:2]) for f in frames)}")
    return np.stack(frames)


def _rgb(task: str, frame: Any) -> np.ndarray:
    if not isinstance(frame, np.ndarray):
        why = f": {frame}" if isinstance(frame, str) else "" if frame is None else f", but a {type(frame).__name__}"
        raise RenderError(f"{task} draws no frames{why}")
    image = frame[..., None] if frame.ndim == 2 else frame
    if image.ndim != 3 or image.shape[-1] not in (1, 3, 4) or not image.size or image.dtype.kind not in "biuf":
        raise RenderError(f"{task} draws {frame.dtype}{list(frame.shape)}; a frame is uint8[height, width, 3]")
    image = image[..., :3]
    if image.dtype != np.uint8:
        parts = image.dtype.kind in "bf" and np.nanmax(image) <= 1
        image = np.clip(np.nan_to_num(image) * (255 if parts else 1), 0, 255).astype(np.uint8)
    return np.repeat(image, 3, -1) if image.shape[-1] == 1 else image
