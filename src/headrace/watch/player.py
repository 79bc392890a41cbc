"""Plays a run's agent in real time for a page: ``python -m headrace.watch.player RUN [--source live|best]``.

The page's server runs this program while a page shows the agent. It writes frames to standard output: the length of a
header (4 bytes, big-endian), the header as JSON, the length of a picture, and the picture as a JPEG; length 0 means no
picture. Lines of standard input steer a robot, as JSON (`headrace.watch.steering`). It ends when standard input or
output is closed. Weights come from ``live.safetensors`` while the run trains, else from the newest checkpoint.

The process has the lowest priority and one thread. While all cores are busy it renders rarely, so that training is
hardly slowed down.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import queue
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import psutil
import torch

from headrace.errors import HeadraceError, OptionError, RenderError, StateError
from headrace.machine import cores, give_way, usable_cores
from headrace.pool.meanings import action_meanings
from headrace.pool.pool import Pool
from headrace.pool.views.pictures import Pictures
from headrace.train.collect.game_values import game_over
from headrace.train.modules.action_masks import MASK
from headrace.train.modules.policy_mapping import policy_mapping
from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import playing_pool
from headrace.train.play.video import MOST_PICTURES, SIDES, enlarged, small
from headrace.train.processes.interrupt import at_end_of_input
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs import files
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.live import read_live
from headrace.train.settings.config import Config
from headrace.watch.steering import Steering

LEAST_PICTURES = 1.0  # least number of pictures per second, of a task that is slow to render
SHARES = 0.01, 0.25  # share of all cores' time for rendering: while all cores are busy, and while one is idle
HELD = 0.5  # seconds for which the last picture of an episode is shown
LATE = 1.0  # greatest delay behind real time, in seconds, that is made up for
POLL = 0.5  # seconds between checks for newer weights
SOURCES = "live", "best"
SMALL = 320  # maximum width and height, in pixels, with which several environments are shown side by side
TILES = 4  # number of environments side by side
GAP = 2  # pixels around each frame
QUALITY = 85  # quality of JPEGs
BUSY = 1.0  # seconds between two measurements of idle cores


@dataclass(frozen=True)
class Weights:
    """Weights of a run's networks.

    Attributes:
        model: name → tensor.
        step: the agent step of training at which they were written.
        mark: a value that identifies this version of the weights.
    """

    model: dict[str, torch.Tensor]
    step: int
    mark: object


class Source:
    """The newest weights of a run.

    Args:
        run: the run folder.
        which: ``"live"`` for the latest weights, or ``"best"`` for the best checkpoint.
    """

    def __init__(self, run: RunFolder, which: str):
        self._run, self._which = run, which
        self._mark: object = None
        self._looked = -POLL

    def newer(self) -> Weights | None:
        """Returns weights newer than the last returned; None if there are none, or within `POLL` seconds of a call."""
        now = time.monotonic()
        if now - self._looked < POLL:
            return None
        self._looked = now
        try:
            found = self._find()
        except StateError:  # the file was replaced or removed while it was read
            return None
        if found is not None:
            self._mark = found.mark
        return found

    def _find(self) -> Weights | None:
        folder = self._run.checkpoints
        if self._which == "live" and (mark := _modified(self._run.live_file)) and self._run.holder is not None:
            live = read_live(self._run.live_file) if mark != self._mark else None
            return None if live is None else Weights(*live, mark)
        path = checkpoints.best(folder) if self._which == "best" else checkpoints.newest(folder)
        mark = None if path is None else (path.name, _modified(path / checkpoints.COUNTERS))
        if path is None or mark == self._mark:
            return None
        point = checkpoints.load(path)
        return Weights(point.model, point.counters["step"], mark)


class Writer:
    """The output of frames to the page's server."""

    def __init__(self, file: BinaryIO):
        self._file = file

    def write(self, header: dict[str, Any], picture: bytes = b"") -> None:
        """Writes a header and a JPEG picture (empty for none); blocks until the server reads them."""
        head = json.dumps(header, allow_nan=False).encode()
        parts = (len(head).to_bytes(4, "big"), head, len(picture).to_bytes(4, "big"), picture)
        self._file.write(b"".join(parts))
        self._file.flush()


class Player:
    """A run's agent that plays one or several environments in real time, with the metrics of the first one.

    Args:
        run: the run folder.
        config: the run's settings.
        source: the source of its weights.
        writer: the output of frames.
        heard: messages of pages, see `headrace.watch.steering`.
    """

    def __init__(self, run: RunFolder, config: Config, source: Source, writer: Writer, heard: queue.SimpleQueue[bytes]):
        self._run, self._config, self._source, self._writer = run, config, source, writer
        self._episode, self._steps, self._earned, self._trained = 1, 0, 0.0, 0
        self._trouble: str | None = None
        self._drawn = self._pause = 0.0
        self._halve = False
        self._heard = heard
        self._steering: Steering | None = None

    def play(self) -> None:
        """Plays until the process ends."""
        weights = self._first_weights()
        seed = time.time_ns() % 2**31
        envs, trouble = self._environments(seed)
        self._trouble = trouble
        options = small(self._config)
        # in next-step mode the step after an episode only begins the next one, so that its last state can be shown
        with (
            playing_pool(
                self._config, lives=True, num_envs=envs, num_threads=1, seed=seed, autoreset="next_step", **options
            ) as pool,
            closing(Pictures(pool)) as self._pictures,
        ):
            agent = Agent(self._config, pool.spec, Checkpoint(weights.model))
            group = next(iter(policy_mapping(pool.spec, self._config.policies).values()))
            self._meanings = action_meanings(self._config.task, pool.spec.options, group.action)
            self._trained = weights.step
            self._loop(pool, agent)

    def _first_weights(self) -> Weights:
        said = False
        while (found := self._source.newer()) is None:
            if not said:
                self._trouble = "the run has no checkpoint yet"
                self._writer.write(self._header(None))
                said = True
            time.sleep(POLL / 2)
        return found

    def _environments(self, seed: int) -> tuple[int, str | None]:
        """Returns the number of environments shown side by side, and an error message if they cannot be rendered."""
        options = small(self._config)
        with playing_pool(self._config, num_envs=1, num_threads=1, seed=seed, **options) as pool:
            pool.reset()
            try:
                frame = pool.render()[0]
            except (RenderError, ImportError) as error:
                return 1, str(error)
            self._halve = bool(pool.spec.agents) and max(frame.shape) > SMALL
            few = max(frame.shape) > SMALL and not self._halve
            return (1 if few or pool.spec.options.keys() & set(SIDES) else TILES), None

    def _loop(self, pool: Pool, agent: Agent) -> None:
        fps = pool.spec.render_fps
        every = max(1, round(fps / MOST_PICTURES))
        obs, info = pool.reset()
        self._steering = steering = Steering(pool)
        ended = over = np.zeros(pool.num_envs, np.bool_)
        due = time.monotonic()
        while True:
            self._take_weights(agent)
            self._take_messages(steering)
            steering.apply()
            # with deterministic actions, several environments that are not random would all look the same
            actions = agent.act(obs, deterministic=pool.num_envs == 1, action_mask=info.get(MASK))
            obs, reward, terminated, truncated, info = pool.step(actions)
            steering.apply()
            if over[0]:
                self._episode, self._steps, self._earned = self._episode + 1, 0, 0.0
            elif not ended[0]:  # otherwise this step only begins a new life
                self._steps, self._earned = self._steps + 1, self._earned + float(agent.score(reward)[0])
            ended, over = terminated | truncated, game_over(pool.spec, terminated, truncated, info)
            due += 1 / fps
            if over[0] or self._steps % every == 0:
                self._show(pool, agent, bool(over[0]), behind=time.monotonic() > due + every / fps)
            agent.reset(ended)
            due += HELD if over[0] else 0.0
            now = time.monotonic()
            time.sleep(max(0.0, due - now))
            due = max(due, now - LATE)

    def _take_weights(self, agent: Agent) -> None:
        weights = self._source.newer()
        if weights is not None:
            with suppress(StateError):  # the weights may be of a new run in the same folder
                agent.load(weights.model)
                self._trained = weights.step

    def _take_messages(self, steering: Steering) -> None:
        while not self._heard.empty():
            try:
                steering.take(json.loads(self._heard.get()))
            except (OptionError, ValueError, RecursionError) as error:  # the server has told whoever sent it
                print(f"a message was dropped: {error}", file=sys.stderr)

    def _show(self, pool: Pool, agent: Agent, over: bool, behind: bool) -> None:
        """Writes the step's metrics, with a picture if one is due."""
        pause = 1 / LEAST_PICTURES if behind else self._pause
        # the last step of an episode is shown with priority
        due = time.monotonic() - self._drawn >= (pause / 2 if over else pause)
        picture = self._draw(pool) if due and self._trouble is None else b""
        self._writer.write(self._header(agent), picture)

    def _draw(self, pool: Pool) -> bytes:
        began = time.process_time()
        try:
            camera = self._steering.camera if self._steering else None
            frames = self._pictures.draw(np.arange(pool.num_envs), camera)
        except (RenderError, ImportError) as error:
            self._trouble = str(error)
            return b""
        picture = jpeg(enlarged(side_by_side(halved(frames) if self._halve else frames)))
        took = time.process_time() - began
        share = SHARES[idle_cores() >= 0.5]
        self._pause = min(1 / LEAST_PICTURES, took / (share * usable_cores()))
        self._drawn = time.monotonic()
        return picture

    def _header(self, agent: Agent | None) -> dict[str, Any]:
        found = None if agent is None else agent.insight()
        return {
            "episode": self._episode,
            "step": self._steps,
            "return": _finite(self._earned),
            "trained_steps": self._trained,
            "value": None if found is None or found.value is None else _finite(found.value),
            "probabilities": None if found is None else _each(found.probabilities),
            "action_values": None if found is None else _numbers(found.action_values),
            "actions": None if found is None else _numbers(found.actions),
            "meanings": None if found is None else self._meanings,
            "error": self._trouble,
            "controls": None if self._steering is None else self._steering.shown(),
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Plays the run named in the arguments until standard input or output is closed; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m headrace.watch.player", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", choices=SOURCES, default=SOURCES[0])
    args = parser.parse_args(argv)
    writer = Writer(_own_output())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    at_end_of_input(lambda: os._exit(0), heard.put)
    give_way()
    torch.set_num_threads(1)
    try:
        run, config = RunFolder.open(args.run)
        Player(run, config, Source(run, args.source), writer, heard).play()
    except BrokenPipeError:
        return 0
    except Exception as error:
        own = isinstance(error, HeadraceError)
        with suppress(BrokenPipeError):
            writer.write({"error": str(error) if own else f"{type(error).__name__}: {error}"})
        if not own:
            raise
    return 1


def _own_output() -> BinaryIO:
    """Returns standard output, for frames only, and redirects all other output to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "wb")


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _finite(number: float) -> float | None:
    """Returns a number rounded to six digits; None for one that JSON cannot represent."""
    return None if files.number(float(number)) is None else float(f"{number:.6g}")


def _numbers(values: list[float] | None) -> list[float | None] | None:
    return None if values is None else [_finite(each) for each in values]


def _each(heads: list[list[float]] | None) -> list[list[float | None] | None] | None:
    return None if heads is None else [_numbers(head) for head in heads]


# -- pictures ------------------------------------------------------------------------------------


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


class _Machine:
    """The machine's idle time at the last measurement."""

    at, idle, known = 0.0, 0.0, 0.0


def idle_cores() -> float:
    """Returns the number of cores that were idle during the last second or more; 0.0 at first.

    Those that this process may not use do not count, as far as they were idle.
    """
    now = time.monotonic()
    if now - _Machine.at >= BUSY:
        idle = psutil.cpu_times().idle
        if _Machine.at:
            found = cores()
            _Machine.known = max(0.0, (idle - _Machine.idle) / (now - _Machine.at) - (found.present - found.usable))
        _Machine.at, _Machine.idle = now, idle
    return _Machine.known


if __name__ == "__main__":
    sys.exit(main())
