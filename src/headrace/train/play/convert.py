"""GIFs of recorded videos, for documents and chats that show no video, and grids of several videos side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from headrace.train.play.video import write_video
from headrace.train.runs.files import replacing

GIF_RATE = 15.0  # maximum number of frames per second
GIF_WIDTH = 480  # maximum width in pixels
GIF_COLOURS = 128
GAP = 4  # pixels between the videos of a grid


def write_gif(path: Path, video: Path) -> None:
    """Writes a video as a GIF that repeats, at most `GIF_WIDTH` pixels wide, in real time, atomically."""
    from PIL import Image

    fps = frame_rate(video)
    every = math.ceil(fps / GIF_RATE)
    pictures: list[Image.Image] = []
    for frame in islice(read_video(video), 0, None, every):
        picture = Image.fromarray(frame)
        if picture.width > GIF_WIDTH:
            picture = picture.resize((GIF_WIDTH, round(picture.height * GIF_WIDTH / picture.width)))
        pictures.append(picture.quantize(GIF_COLOURS, dither=Image.Dither.NONE))
    with replacing(path) as temporary:
        times = {"duration": round(1000 * every / fps), "loop": 0}
        pictures[0].save(temporary, format="GIF", save_all=True, append_images=pictures[1:], **times)


def write_grid(path: Path, videos: Sequence[Path]) -> None:
    """Writes videos of equal size side by side as one, row after row; those that end sooner keep their last frame."""
    write_video(path, _tiled(videos), frame_rate(videos[0]))


def read_video(path: Path) -> Iterator[np.ndarray]:
    """Yields a video's frames, uint8[height, width, 3]."""
    import av

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


def frame_rate(path: Path) -> float:
    """Returns a video's number of frames per second."""
    import av

    with av.open(str(path)) as container:
        return float(container.streams.video[0].average_rate or GIF_RATE)


def _tiled(videos: Sequence[Path]) -> Iterator[np.ndarray]:
    readers = [read_video(path) for path in videos]
    last = [next(reader) for reader in readers]
    columns = math.ceil(math.sqrt(len(videos)))
    height, width = (side + GAP for side in last[0].shape[:2])
    rows = math.ceil(len(videos) / columns)
    while True:
        grid = np.full((rows * height - GAP, columns * width - GAP, 3), 255, np.uint8)
        for i, frame in enumerate(last):
            top, left = i // columns * height, i % columns * width
            grid[top : top + height - GAP, left : left + width - GAP] = frame
        yield grid
        following = [next(reader, None) for reader in readers]
        if all(frame is None for frame in following):
            return
        last = [before if frame is None else frame for before, frame in zip(last, following, strict=True)]
