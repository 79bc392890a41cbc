"""A video of the trained agent, because a curve does not show *how* it plays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

import headrace
from headrace.train.agent import Agent, load_checkpoint
from headrace.train.evaluate import playing_pool
from headrace.train.masks import MASK
from headrace.train.run import RunFolder

SMALLEST_HEIGHT = 240  # smaller frames (Atari's are 210 x 160) are enlarged by a whole factor


def record(
    run_dir: str | Path, *, max_steps: int = 1500, fps: int = 30, seed: int = 1000, which: str = "newest"
) -> Path:
    """Play one episode (at most ``max_steps`` steps) and write it to ``videos/STEP.mp4``; returns the path."""
    run, config = RunFolder.open(run_dir)
    point = load_checkpoint(run, which)
    path = run.videos / f"step-{point.counters['step']:012d}.mp4"
    with playing_pool(config, num_envs=1, seed=seed) as pool:
        agent = Agent(config, pool.spec, point)
        write_video(path, _frames(agent, pool, max_steps), fps)
    return path


def write_video(path: Path, frames: Iterable[np.ndarray], fps: float = 30) -> None:
    """Encode frames uint8[height, width, 3] as H.264 in an MP4 file that browsers play."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = None
        for frame in map(enlarged, frames):
            if stream is None:
                # to a thousandth: floats of time steps are no round fractions
                stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
                # 4:2:0 needs even sides
                stream.height, stream.width = (side // 2 * 2 for side in frame.shape[:2])
                stream.pix_fmt = "yuv420p"
            even = np.ascontiguousarray(frame[: stream.height, : stream.width])
            for packet in stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")):
                container.mux(packet)
        if stream is not None:
            container.mux(stream.encode())


def enlarged(frame: np.ndarray) -> np.ndarray:
    """A frame uint8[height, width, 3] that is high enough for people, enlarged by a whole factor where it is not."""
    factor = max(1, -(-SMALLEST_HEIGHT // frame.shape[0]))
    return frame.repeat(factor, 0).repeat(factor, 1) if factor > 1 else frame


def _frames(agent: Agent, pool: headrace.Pool, max_steps: int) -> Iterator[np.ndarray]:
    obs, info = pool.reset()
    yield pool.render()[0]
    for _ in range(max_steps):
        obs, _, terminated, truncated, info = pool.step(agent.act(obs, action_mask=info.get(MASK)))
        if terminated[0] or truncated[0]:
            return
        yield pool.render()[0]
