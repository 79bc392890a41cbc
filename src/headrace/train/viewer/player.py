"""Plays one environment with the newest weights, for the viewer's page.

The first watcher starts it: only then are a pool, a policy and a renderer made, and a thread that plays in real time.
Shortly after the last watcher has left, all of it is freed. Frames that take long to render are rendered less often,
so that training is hardly affected.
"""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from headrace.errors import HeadraceError, RenderError
from headrace.machine import usable_cores
from headrace.pool.pool import Pool
from headrace.pool.registry import build_task
from headrace.train.config.settings import Config
from headrace.train.modules.action_masks import MASK
from headrace.train.play.evaluate import playing_pool
from headrace.train.play.video import MOST_PICTURES, enlarged, plain
from headrace.train.processes.counters import Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.workers.policy_copy import PolicyCopy, unlearnt_agent
from headrace.train.workers.seeds import seed_of

LEAST_PICTURES = 1.0  # least frames per second, of a game that is slow to render
PIXELS = 240  # width and height, of tasks with this option: software rendering of a robot takes long for each pixel
LINGER = 1.0  # seconds that it continues without watchers: reloading a page disconnects it for a moment
HELD = 0.5  # seconds that the last frame of an episode stays
LATE = 1.0  # seconds behind real time from which on the delay is not caught up
LOOK = 0.25  # seconds between checks for the end of the run
REMEMBERED = 20  # episodes whose results are kept
KEPT = 3000  # last frames of an episode that are kept
QUALITY = 85  # of JPEGs


class Picture(NamedTuple):
    """A JPEG of an episode after some number of steps."""

    step: int
    jpeg: bytes


@dataclass
class Episode:
    """One episode.

    Attributes:
        earned: its return so far.
        steps: agent steps so far.
        version: version of the weights that chose the last action; 0 for the initial weights.
        pictures: its last frames.
    """

    earned: float = 0.0
    steps: int = 0
    version: int = 0
    pictures: deque[Picture] = field(default_factory=lambda: deque(maxlen=KEPT))

    def frames(self, every: int) -> Iterator[np.ndarray]:
        """Yields frames uint8[height, width, 3], one for every ``every`` steps; missing ones repeat the one before."""
        shown = None
        for i, picture in enumerate(self.pictures):
            shown = _decoded(picture.jpeg)
            following = self.pictures[i + 1].step if i + 1 < len(self.pictures) else picture.step + 1
            for _ in range(picture.step, following, every):
                yield shown


class Show:
    """The environment that all watchers see, each from its own thread.

    Args:
        config: the run's settings.
        weights: the buffer from which the policy is read.
        counters: tell when the run is over.
        life: how often this process was started before.
        fps: agent steps per second in real time.

    Attributes:
        fps: agent steps per second in real time.
        every: steps from one frame to the next.
        watchers: present number of watchers.
        begun: number of times that a first watcher started it.
        pictures: number of frames rendered.
        trouble: why nothing can be rendered; None if it can, or nothing was tried.
        episode: the episode that is playing; None if none is.
        last: the last complete episode; None before.
        results: return, length and weights' version of the last episodes, oldest first.
    """

    def __init__(self, config: Config, weights: WeightBuffer, counters: Counters, life: int, fps: float):
        self._config, self._weights, self._board, self._life = config, weights, counters, life
        self.fps, self.every = fps, max(1, round(fps / MOST_PICTURES))
        self._changed = threading.Condition()
        self._player: threading.Thread | None = None
        self._jpeg = b""
        self._alone = self._drawn = self._pause = 0.0
        self._version = 0
        self._kept: tuple[torch.Tensor, torch.Tensor] | None = None  # the newest weights, and what goes with them
        self.watchers = self.begun = self.pictures = 0
        self.trouble: str | None = None
        self.episode: Episode | None = None
        self.last: Episode | None = None
        self.results: deque[tuple[float, int, int]] = deque(maxlen=REMEMBERED)

    def watch(self) -> Generator[bytes, None, None]:
        """Yields JPEGs as they are rendered, until the run is over; closing the iterator ends it.

        Raises:
            RenderError: nothing can be rendered; the message says why.
        """
        with self._changed:
            self.watchers += 1
            seen = self.pictures
            if self._player is None:
                self._begin()
        try:
            while (picture := self._picture_after(seen)) is not None:
                seen, jpeg = picture
                yield jpeg
        finally:
            with self._changed:
                self.watchers -= 1
                self._alone = time.monotonic()

    def close(self) -> None:
        """Wait until the player has stopped; the counters tell it to."""
        player = self._player
        if player is not None:
            player.join(2.0)

    def _begin(self) -> None:
        self.trouble = None
        self.begun += 1
        self._player = threading.Thread(target=self._run, daemon=True)
        self._player.start()

    def _picture_after(self, seen: int) -> tuple[int, bytes] | None:
        """The newest picture, and its number, once there is one behind that number."""
        with self._changed:
            while self.pictures == seen:
                if self._board.stopped:
                    return None
                if self._player is None:
                    raise RenderError(self.trouble or "the show is over")
                self._changed.wait(LOOK)
            return self.pictures, self._jpeg

    def _run(self) -> None:
        """The thread that plays."""
        try:
            self._play()
        except Exception as error:  # who trains must not suffer for who watches
            own = isinstance(error, HeadraceError)
            self.trouble = str(error) if own else f"{type(error).__name__}: {error}"
        with self._changed:
            if self._player is threading.current_thread():
                self._player = self.episode = None
            self._changed.notify_all()

    def _play(self) -> None:
        seed = seed_of(self._config, 2**31 + 1, self._life, self.begun)
        # the step after an episode only begins the next one: its last state is seen as well
        sizes = picture_options(self._config)
        with playing_pool(self._config, num_envs=1, num_threads=1, seed=seed, autoreset="next_step", **sizes) as pool:
            agent, acting = unlearnt_agent(self._config, pool.spec)
            if self._kept is not None:
                acting.take(*self._kept)
            self._take_weights(acting)
            obs, info = pool.reset()
            episode = self.episode = Episode(version=self._version)
            due, over = self._show(pool, episode), False
            while not self._left():
                self._take_weights(acting)
                obs, reward, terminated, truncated, info = pool.step(agent.act(obs, True, info.get(MASK)))
                if over:
                    episode = self.episode = Episode()
                else:
                    episode.earned += float(agent.score(reward)[0])
                    episode.steps += 1
                episode.version = self._version
                over = bool(terminated[0] or truncated[0])
                due = self._keep_time(pool, episode, due + 1 / self.fps, over)
                if over:
                    agent.reset()
                    self.last = episode
                    self.results.append((episode.earned, episode.steps, episode.version))

    def _keep_time(self, pool: Pool, episode: Episode, due: float, over: bool) -> float:
        """Show a step at its time, unless others must make up for lost time; answers when this one was."""
        now = time.monotonic()
        if over or episode.steps % self.every == 0:
            behind, since = now > due + self.every / self.fps, now - self._drawn
            if over or since >= (1 / LEAST_PICTURES if behind else self._pause):
                self._show(pool, episode)
        due += HELD if over else 0.0
        now = time.monotonic()
        time.sleep(max(0.0, due - now))
        return max(due, now - LATE)

    def _show(self, pool: Pool, episode: Episode) -> float:
        """Draw, for everybody; answers when."""
        began = time.process_time()
        picture = Picture(episode.steps, _encoded(enlarged(pool.render()[0])))
        episode.pictures.append(picture)
        took = time.process_time() - began
        self._pause = min(1 / LEAST_PICTURES, took / (self._config.viewer_share * usable_cores()))
        self._drawn = time.monotonic()
        with self._changed:
            self.pictures, self._jpeg = self.pictures + 1, picture.jpeg
            self._changed.notify_all()
        return self._drawn

    @torch.no_grad()
    def _take_weights(self, acting: PolicyCopy) -> None:
        version = acting.read(self._weights)
        if version is not None:
            self._version, self._kept = version, (acting.vector.clone(), acting.known())

    def _left(self) -> bool:
        """Whether nobody has watched for a while; who comes then begins another show."""
        with self._changed:
            over = not self.watchers and time.monotonic() - self._alone > LINGER
            if over:
                self._player = self.episode = None
            return over or self._board.stopped


def picture_options(config: Config) -> dict[str, int | bool]:
    """Options of the run's task that make its pictures small and plain, where nobody chose otherwise."""
    sides = ("render_width", "render_height")
    chosen: dict[str, int | bool] = {**plain(config)}
    if not config.env_options.keys() & {*sides, "width", "height"}:
        options = build_task(config.task, **config.env_options).spec.options
        chosen |= {side: PIXELS for side in sides if side in options}
    return chosen


def _encoded(frame: np.ndarray) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def _decoded(jpeg: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(jpeg)))
