"""The connection to one open page, which requests the data that it shows, and receives them and their updates.

Messages are JSON. Messages with numbers or a picture are binary: four bytes with the length of a JSON header
(big-endian), the header, padded with spaces to a multiple of eight bytes, and then the numbers (float64, little-endian)
or the picture.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace.errors import OptionError
from headrace.train.runs.events import one_line
from headrace.watch.files import plain
from headrace.watch.library import Library
from headrace.watch.players import SOURCES, Player, Players
from headrace.watch.run import Run
from headrace.watch.series import thin, window

INTERVAL = 1.0  # seconds between two refreshes of the folders
AXES = {"step": ("step",), "seconds": ("time/seconds",), "updates": ("updates", "iteration")}
MOST_CHOSEN = 100
POINTS = 20_000  # greatest number of points of a curve, of all chosen runs together
FEWEST, MOST = 400, 4000  # limits of the number of points of one run
GROWTH = 0.25  # points that may be appended before all are sent again, relative to the points sent
NO_DETAILS = {"events": [], "episodes": []}
T = TypeVar("T")


@dataclass
class View:
    """The view of a page: the chosen runs, and the visible interval of an axis, by default all of it."""

    chosen: list[str] = field(default_factory=list)
    axis: str = "step"
    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> View:
        """Returns the view that a message requests; malformed parts are ignored."""
        chosen = said.get("runs")
        chosen = [name for name in chosen if isinstance(name, str)] if isinstance(chosen, list) else []
        axis = said.get("axis")
        bounds = _bound(said.get("low"), -math.inf), _bound(said.get("high"), math.inf)
        return cls(list(dict.fromkeys(chosen))[:MOST_CHOSEN], axis if axis in [*AXES] else "step", *bounds)

    @property
    def is_whole(self) -> bool:
        """Whether the axis is shown completely."""
        return self.low == -math.inf and self.high == math.inf


@dataclass
class Sent:
    """The data of a run that a page has received.

    Attributes:
        view: the view for which they were sent.
        generation, count: those of the run's `Series` at that time.
        points: number of points that were sent at first.
        appended: number of points that have been appended since.
        version: the `Run.version` of the details that were sent; -1 for none.
    """

    view: View
    generation: int
    count: int
    points: int
    appended: int = 0
    version: int = -1


class Session:
    """The connection to one page.

    Args:
        socket: an accepted websocket.
        library: the runs.
        players: the processes that play agents.
        reader: an executor with one thread, for functions that read files.
    """

    def __init__(self, socket: WebSocket, library: Library, players: Players, reader: Executor):
        self._socket, self._library, self._players, self._reader = socket, library, players, reader
        self._view, self._resting = View(), False
        self._forgotten: set[str] = set()  # runs that the page has hidden since the last refresh
        self._versions: dict[str, int] = {}
        self._sent: dict[str, Sent] = {}
        self._swept: dict[str, int] = {}
        self._asked = asyncio.Event()
        self._sending = asyncio.Lock()
        self._wanted: tuple[str, str] | None = None
        self._agent: tuple[str, str] | None = None
        self._showing: asyncio.Task[None] | None = None
        self._player: Player | None = None

    async def serve(self) -> None:
        """Sends data and their updates until the page is closed."""
        telling = asyncio.create_task(self._keep_telling())
        try:
            while not telling.done():
                refusal = self._on_message(json.loads(await self._socket.receive_text()))
                if refusal:
                    await self._send(_json({"kind": "refused", "words": refusal}))
        except (
            WebSocketDisconnect,
            ValueError,
            KeyError,
            RecursionError,
        ):  # the page was closed, or has sent a malformed message
            pass
        finally:
            for task in filter(None, (telling, self._showing)):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await task

    def _on_message(self, said: Any) -> str:
        """Does what a message asks for; returns what is wrong with its steering of a robot, empty for nothing."""
        if not isinstance(said, dict):
            return ""
        if "steer" in said:
            return self._steer(said["steer"])
        if "runs" in said:
            before, self._view = self._view, View.of(said)
            self._forgotten |= set(before.chosen) - set(self._view.chosen)
        if "resting" in said:  # the page is hidden
            self._resting = bool(said["resting"])
        if "agent" in said:
            self._wanted = self._agent_of(said["agent"])
        self._show_agent()
        self._asked.set()
        return ""

    def _steer(self, said: Any) -> str:
        if self._player is None:
            return "no agent is at play"
        try:
            self._player.steer(said, self)
        except OptionError as error:
            return str(error)
        return ""

    async def _keep_telling(self) -> None:
        while True:
            began = time.monotonic()
            self._asked.clear()
            if not self._resting:
                view, forgotten, self._forgotten = self._view, self._forgotten, set()
                for message in await self._read(partial(self._news, view, forgotten)):
                    await self._send(message)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), INTERVAL + (time.monotonic() - began))

    async def _read(self, reading: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, reading)

    async def _send(self, message: str | bytes) -> None:
        async with self._sending:
            if isinstance(message, bytes):
                await self._socket.send_bytes(message)
            else:
                await self._socket.send_text(message)

    def _news(self, view: View, forgotten: set[str]) -> list[str | bytes]:
        """Returns messages with all data that the page lacks, including runs that it had hidden and shows again."""
        library = self._library
        library.look()
        messages: list[str | bytes] = []
        runs = {name: library.runs[name] for name in view.chosen if name in library.runs}
        self._sent = {name: sent for name, sent in self._sent.items() if name in runs and name not in forgotten}
        most = min(MOST, max(FEWEST, POINTS // max(1, len(runs))))
        for name, run in runs.items():
            try:
                messages += self._of_run(name, run, view, most)
            except Exception as error:  # whatever this folder holds, the others are shown
                messages.append(_json({"kind": "details", "run": name, "problem": one_line(error), **NO_DETAILS}))
        return [*self._of_list(), *messages, *self._of_sweeps(runs.values())]

    def _of_list(self) -> list[str | bytes]:
        runs, known = self._library.runs, self._versions
        changed = [run.summary for name, run in runs.items() if known.get(name) != run.version]
        gone = [name for name in known if name not in runs]
        first = not known and not changed
        self._versions = {name: run.version for name, run in runs.items()}
        if not (changed or gone or first):
            return []
        roots = [str(root) for root in self._library.roots]
        return [_json({"kind": "runs", "changed": changed, "gone": gone, "roots": roots, "now": time.time()})]

    def _of_run(self, name: str, run: Run, view: View, most: int) -> list[str | bytes]:
        """Returns messages with the new data of a chosen run."""
        series, sent = run.series, self._sent.get(name)
        messages: list[str | bytes] = []
        if sent is None or sent.view != view or sent.generation != series.generation:
            whole = True
        else:
            new = series.count - sent.count
            whole = new > 0 and (not view.is_whole or sent.appended + new > max(FEWEST, GROWTH * sent.points))
        if whole:
            columns = series.rows()
            axis = next((column for column in AXES[view.axis] if column in columns), view.axis)
            shown = thin(window(columns, axis, view.low, view.high), most)
            points = max(map(len, shown.values()), default=0)
            messages.append(_numbers("series", name, shown, whole=view.is_whole))
            messages.append(_numbers("evaluations", name, thin(series.evaluations(), most)))
            version = sent.version if sent is not None else -1
            sent = Sent(view, series.generation, series.count, points, version=version)
        elif sent is not None and series.count > sent.count:
            messages.append(_numbers("more", name, series.rows(sent.count)))
            messages.append(_numbers("evaluations", name, thin(series.evaluations(), most)))
            sent.appended += series.count - sent.count
            sent.count = series.count
        assert sent is not None
        self._sent[name] = sent
        if sent.version != run.version:
            sent.version = run.version
            messages.append(_json({"kind": "details", "run": name, "problem": series.problem, **run.details()}))
        return messages

    def _of_sweeps(self, chosen: Iterable[Run]) -> list[str | bytes]:
        """Returns messages with the new data of the chosen runs' sweeps."""
        messages: list[str | bytes] = []
        for sweep in {run.sweep for run in chosen if run.sweep is not None}:
            sweep.refresh()
            if self._swept.get(sweep.id) != sweep.version:
                self._swept[sweep.id] = sweep.version
                messages.append(_json({"kind": "sweep", "sweep": sweep.id, **sweep.told}))
        return messages

    def _show_agent(self) -> None:
        """Starts, changes or stops sending an agent's frames, as the page has requested."""
        agent = None if self._resting else self._wanted
        if agent != self._agent:
            if self._showing is not None:
                self._showing.cancel()
            self._agent = agent
            self._showing = asyncio.create_task(self._keep_showing(*agent)) if agent is not None else None

    def _agent_of(self, said: Any) -> tuple[str, str] | None:
        """Returns the run and the source of weights that a page requests; None for no run or an unknown one."""
        known = isinstance(said, dict) and said.get("source") in SOURCES and isinstance(said.get("run"), str)
        if not known or said["run"] not in self._library.runs:
            return None
        return said["run"], said["source"]

    async def _keep_showing(self, name: str, source: str) -> None:
        run = self._library.runs[name]
        async with self._players.watched(run.path, source) as player:
            self._player = player
            try:
                async for header, picture in player.frames():
                    about = {"kind": "picture", "run": name, "source": source, "frame": header}
                    await self._send(_binary(about, picture))
            finally:
                player.let_go(self)
                if self._player is player:
                    self._player = None


def _numbers(kind: str, run: str, columns: Mapping[str, np.ndarray], **more: Any) -> bytes:
    """Returns a binary message with columns of numbers, all of the same length."""
    length = max(map(len, columns.values()), default=0)
    header = {"kind": kind, "run": run, "names": list(columns), "length": length, **more}
    content = np.stack(list(columns.values())).astype("<f8").tobytes() if columns else b""
    return _binary(header, content)


def _binary(header: Mapping[str, Any], content: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-(4 + len(text)) % 8)
    return len(text).to_bytes(4, "big") + text + content


def _json(message: Mapping[str, Any]) -> str:
    """Returns a message as JSON text; infinite numbers and NaN become null."""
    return json.dumps(plain(message), allow_nan=False)


def _bound(value: Any, default: float) -> float:
    """Returns a number of a message, limited to finite floats; the default if it is not a number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return min(max(value, -sys.float_info.max), sys.float_info.max) if known else default
