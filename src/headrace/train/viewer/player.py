"""One environment, played by the newest weights for whoever watches.

The first watcher brings it about: only then are a pool, a policy and a renderer made, and a thread that plays in real
time. A moment after the last one has gone all that is gone, too. Pictures that take long to draw are drawn less often,
so that training hardly notices.
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

LEAST_PICTURES = 1.0  # a second, of a game that cannot be drawn in real time, or costs training too much
PIXELS = 240  # wide and high, of tasks that leave it open: a processor that draws a robot takes long for every one
LINGER = 1.0  # seconds that it plays on without watchers: a page that is loaded again is gone for a moment
HELD = 0.5  # seconds that the last picture of an episode stays
LATE = 1.0  # seconds behind real time that are not made up for
LOOK = 0.25  # seconds between looks at whether the run is over
REMEMBERED = 20  # episodes
KEPT = 3000  # pictures of an episode, its last
QUALITY = 85  # of JPEGs


class Picture(NamedTuple):
    """A JPEG of an episode after so many steps."""

    step: int
    jpeg: bytes


@dataclass
class Episode:
    """What was seen of one.

    Attributes:
        earned: its return so far.
        steps: agent steps so far.
        version: of the weights that chose the last action; 0 before any were published.
        pictures: its last ones.
    """

    earned: float = 0.0
    steps: int = 0
    version: int = 0
    pictures: deque[Picture] = field(default_factory=lambda: deque(maxlen=KEPT))

    def frames(self, every: int) -> Iterator[np.ndarray]:
        """Frames uint8[height, width, 3], one for every so many steps: where one is missing, the one before."""
        shown = None
        for i, picture in enumerate(self.pictures):
            shown = _decoded(picture.jpeg)
            following = self.pictures[i + 1].step if i + 1 < len(self.pictures) else picture.step + 1
            for _ in range(picture.step, following, every):
                yield shown


class Show:
    """What any number of watchers see, all the same; for one thread each.

    Args:
        config: the run's settings.
        weights: where the policy comes from.
        counters: say when all is over.
        life: how often this process was started before.
        fps: agent steps a second, in real time.

    Attributes:
        fps: the same.
        every: steps from one picture to the next.
        watchers: how many there are.
        begun: how often somebody came who found nothing playing.
        pictures: how many were drawn.
        trouble: why there is no picture; None if there is, or nobody asked.
        episode: what is playing; None if nothing is.
        last: the last whole episode; None before.
        results: return, length and weights' version of the last ones, the newest at the end.
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
        """JPEGs as they are drawn, until the run is over; who no longer wants them closes the iterator.

        Raises:
            RenderError: there is nothing to be seen, and why.
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
        """Wait until nothing plays; the counters say that it is to end."""
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
                    agent.forget(np.ones(1, np.bool_))
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
