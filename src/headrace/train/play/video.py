"""Records videos of a trained agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

import headrace
from headrace.train.modules.action_masks import MASK
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import playing_pool
from headrace.train.play.pictures import enlarged, plain
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.writing import is_newer

MOST_PICTURES = 30.0  # a second


def record(
    run_dir: str | Path,
    *,
    max_steps: int = 1500,
    seed: int = 1000,
    which: str = "best",
    trust: bool = False,
    shown: Callable[[int], None] = lambda steps: None,
) -> Path:
    """Play one episode (at most ``max_steps`` steps) in real time, and write it to ``videos/STEP.mp4``.

    Args:
        run_dir: the run folder.
        max_steps: agent steps.
        seed: of the environment.
        which: the ``"best"`` or the ``"newest"`` checkpoint.
        trust: as in `headrace.train.resume`.
        shown: called with the number of each recorded agent step.

    Returns:
        The video's path.

    Raises:
        RenderError: the task has no rendering.
        TrustError: as in `headrace.train.resume`.
    """
    run, config = RunFolder.open(run_dir, trust=trust)
    point = load_checkpoint(run, which)
    path = _film(run, point.counters["step"])
    with playing_pool(config, num_envs=1, seed=seed, **plain(config)) as pool:
        fps = pool.spec.render_fps
        every = max(1, round(fps / MOST_PICTURES))
        write_video(path, _frames(Agent(config, pool.spec, point), pool, max_steps, every, shown), fps / every)
    return path


def best_film(run: RunFolder) -> Path | None:
    """Returns the video of a run's best checkpoint, if there is one newer than it; else None."""
    best = checkpoints.best(run.checkpoints)
    if best is None:
        return None
    path = _film(run, checkpoints.load(best).counters["step"])
    return path if is_newer(path, best / checkpoints.COUNTERS) else None


def _film(run: RunFolder, step: int) -> Path:
    return run.videos / f"{checkpoints.step_name(step)}.mp4"


def write_video(path: Path, frames: Iterable[np.ndarray], fps: float = 30) -> None:
    """Encode frames uint8[height, width, 3] as H.264 in an MP4 file that browsers play, written atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}")
    try:
        _encode(part, frames, fps)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _encode(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    import av

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


def _frames(
    agent: Agent, pool: headrace.Pool, max_steps: int, every: int, shown: Callable[[int], None]
) -> Iterator[np.ndarray]:
    """Frames of an episode, one for every ``every`` steps."""
    obs, info = pool.reset()
    yield pool.render()[0]
    for step in range(1, max_steps + 1):
        obs, _, terminated, truncated, info = pool.step(agent.act(obs, action_mask=info.get(MASK)))
        if terminated[0] or truncated[0]:
            return
        if step % every == 0:
            yield pool.render()[0]
            shown(step)
