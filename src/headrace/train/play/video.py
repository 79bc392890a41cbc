"""Recording of episodes of an agent as videos."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.machine import usable_cores
from headrace.pool.pool import Pool
from headrace.train.collect.game_values import game_over
from headrace.train.modules.action_masks import MASK
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import opened, playing_pool
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.episodes import KeptEpisode, Kind, file_name, keep, kept
from headrace.train.runs.files import is_newer, replacing
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

MOST_PICTURES = 30.0  # maximum number of frames per second
MOST_STEPS = 1500  # maximum number of agent steps of a video
SMALLEST_HEIGHT = 240  # smaller frames (Atari's are 210 x 160) are enlarged by a whole factor
PIXELS = 240  # width and height for tasks with these options, as software rendering takes long for each pixel
EFFECTS = "render_effects"
SIDES = ("render_width", "render_height")


def record(
    run_dir: str | Path,
    *,
    max_steps: int = MOST_STEPS,
    seed: int = 1000,
    which: Literal["best", "newest"] = "best",
    env_options: Mapping[str, Any] | None = None,
    trust: bool = False,
    shown: Callable[[int], None] = lambda steps: None,
) -> Path:
    """Plays one episode, and writes it as a video at real-time speed into the run's ``episodes/``.

    Args:
        max_steps: maximum number of agent steps.
        which: the ``"best"`` or the ``"newest"`` checkpoint.
        env_options: as in `evaluate.evaluate`.
        trust: as in `headrace.train.resume`.
        shown: called with the number of each recorded agent step.

    Raises:
        ImportError: PyAV is not installed.
        RenderError: the task has no rendering.
        TrustError: as in `headrace.train.resume`.
    """
    run, config = opened(run_dir, env_options, trust)
    point = load_checkpoint(run, which)
    with playing_pool(config, lives=True, num_envs=1, seed=seed, **plain(config)) as pool:
        agent = Agent(config, pool.spec, point)
        return film(run, agent, pool, point.counters["step"], which, max_steps, shown=shown)


def film(
    run: RunFolder,
    agent: Agent,
    pool: Pool,
    step: int,
    kind: Kind,
    max_steps: int = MOST_STEPS,
    *,
    shown: Callable[[int], None] = lambda steps: None,
    enough: Callable[[], bool] = lambda: False,
) -> Path:
    """Plays one episode, and writes it as a video into the run's ``episodes/``; returns the video's path."""
    path, fps = run.episodes / file_name(step), pool.spec.render_fps
    every = max(1, round(fps / MOST_PICTURES))
    earned, steps, over = 0.0, 0, False

    def frames() -> Iterator[np.ndarray]:
        """Yields frames of a whole game, as in `play_episodes`: one for every ``every`` steps, and the last one."""
        nonlocal earned, steps, over
        obs, info = pool.reset()
        yield pool.render()[0]
        while steps < max_steps and not over and not enough():
            obs, reward, terminated, truncated, info = pool.step(agent.act(obs, action_mask=info.get(MASK)))
            steps += 1
            earned += float(agent.score(reward)[0])
            over = bool(game_over(pool.spec, terminated, truncated, info)[0])
            agent.reset(terminated)  # also after a lost life
            if over or steps % every == 0:
                yield pool.render()[0]
                shown(steps)

    write_video(path, frames(), fps / every)
    keep(run.episodes, KeptEpisode(path.name, step, earned, steps, time.time(), kind, over))
    return path


def best_film(run: RunFolder) -> Path | None:
    """Returns the video of a run's best checkpoint; None if there is none newer than the checkpoint."""
    best = checkpoints.best(run.checkpoints)
    if best is None:
        return None
    path = run.episodes / file_name(checkpoints.load(best).counters["step"])
    known = any(one.file == path.name and one.kind == checkpoints.BEST for one in kept(run.episodes))
    return path if known and is_newer(path, best / checkpoints.COUNTERS) else None


def write_video(path: Path, frames: Iterable[np.ndarray], fps: float = 30) -> None:
    """Writes frames as a video, H.264 in an MP4 file that browsers can play, atomically.

    Args:
        frames: the frames, uint8[height, width, 3] each, of equal size.
        fps: frames per second.
    """
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = None
        for frame in map(enlarged, frames):
            if stream is None:
                # with a denominator of at most 1000, as time steps are floats
                stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
                # 4:2:0 needs even sides
                stream.height, stream.width = (side // 2 * 2 for side in frame.shape[:2])
                stream.pix_fmt = "yuv420p"
                stream.thread_count = usable_cores()
                stream.options = {"preset": "veryfast"}  # half the time of x264's default, and an eighth more bytes
            even = np.ascontiguousarray(frame[: stream.height, : stream.width])
            for packet in stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")):
                container.mux(packet)
        if stream is not None:
            container.mux(stream.encode())


def plain(config: Config) -> dict[str, Any]:
    """Returns the option that turns off shadows and reflections, which take most of a CPU's time, unless it is set."""
    options = config.build().spec.options
    return {} if EFFECTS not in options or EFFECTS in config.env_options else {EFFECTS: False}


def small(config: Config) -> dict[str, Any]:
    """Returns options of the run's task that make its pictures small and plain, without those that the run sets."""
    chosen = plain(config)
    if not config.env_options.keys() & {*SIDES, "width", "height"}:
        options = config.build().spec.options
        chosen |= {side: PIXELS for side in SIDES if side in options}
    return chosen


def enlarged(frame: np.ndarray) -> np.ndarray:
    """Returns a frame uint8[height, width, 3], enlarged by an integer factor to at least `SMALLEST_HEIGHT` pixels."""
    factor = max(1, -(-SMALLEST_HEIGHT // frame.shape[0]))
    return frame.repeat(factor, 0).repeat(factor, 1) if factor > 1 else frame
