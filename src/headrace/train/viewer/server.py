"""A web page for whoever wants to watch a run: the newest weights at play, and how far the run is.

It listens on this machine alone. While nobody watches, it waits for connections and does nothing else; what it then
plays and draws is in `headrace.train.viewer.player`. Like the evaluator it gives way to all others.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from headrace.errors import RenderError, StateError
from headrace.pool.registry import build_task
from headrace.train.config.settings import Config
from headrace.train.logging.metrics import read_metrics
from headrace.train.logging.throughput import Throughput
from headrace.train.play.video import write_video
from headrace.train.processes.counters import Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runs.folder import RunFolder
from headrace.train.viewer.address import HOST, announce, withdraw
from headrace.train.viewer.player import Episode, Show
from headrace.train.workers.evaluator import give_way

PAGE = Path(__file__).with_name("viewer.html")
LOOK = 0.25  # seconds between looks at whether the run is over
STALLED = 10.0  # seconds after which a watcher that takes nothing is taken for gone
POINTS = 400  # of the learning curve
BOUNDARY = "picture"
HOSTS = (HOST, "localhost", "::1")  # what this machine is called where a browser is, also behind ssh -L


def has_pictures(config: Config) -> bool:
    """Whether the run's task draws itself, as far as that can be said without trying it."""
    kernel = build_task(config.task, **config.env_options).kernel
    return kernel is None or kernel.render is not None


def work(config: Config, run: Path, weights: WeightBuffer, counters: Counters, life: int) -> None:
    """The process of the viewer."""
    give_way()
    torch.set_num_threads(1)
    folder = RunFolder(run)
    fps = build_task(config.task, **config.env_options).spec.render_fps
    show = Show(config, weights, counters, life, fps)
    try:
        server = _listening(int(counters.port[0]), Site(config, folder, weights, counters, show))
    except OSError:  # nowhere to listen: no reason to end a training
        while not counters.stopped:
            time.sleep(LOOK)
        return
    with server:
        counters.port[0] = server.server_port
        with suppress(OSError):  # a full disk; the address is on the screen, too
            announce(folder, server.server_port)
        counters.viewers[0] += 1
        try:
            while not counters.stopped:
                server.handle_request()
            show.close()
        finally:
            withdraw(folder)


class Site:
    """What there is to be seen, apart from how it is asked for."""

    def __init__(self, config: Config, run: RunFolder, weights: WeightBuffer, counters: Counters, show: Show):
        self._config, self._run, self._weights, self._board, self.show = config, run, weights, counters, show
        self._lock, self._filming = threading.Lock(), threading.Lock()
        self._returns: deque[float] = deque(maxlen=config.stop_episodes)
        self._throughput = Throughput()
        self._throughput.note(counters.total_steps(), int(counters.updates[0]))
        self._film: tuple[Episode | None, bytes] = (None, b"")

    def status(self) -> dict[str, Any]:
        """How far the run is, and what is playing; None stands for what is not known, or no number."""
        with self._lock:
            self._throughput.note(self._board.total_steps(), int(self._board.updates[0]))
            sampled, updated = self._throughput.per_second() or (None, None)
            self._returns.extend(self._board.new_episodes().returns.tolist())
            returns = list(self._returns)
        show, config, playing = self.show, self._config, self.show.episode
        results = [_result(*each) for each in list(show.results)]
        return {
            "task": config.task,
            "algo": config.algo,
            "run": str(self._run.path),
            "pid": os.getpid(),
            "step": self._board.total_steps(),
            "total_steps": config.total_steps,
            "updates": int(self._board.updates[0]),
            "version": self._weights.version,
            "training_return": _finite(sum(returns) / len(returns)) if returns else None,
            "training_episodes": len(returns),
            "goal": config.stop_at_return,
            "per_second": {"sampling": sampled, "updates": updated},
            "fps": show.fps,
            "playing": None if playing is None else _result(playing.earned, playing.steps, playing.version),
            "episodes": results,
            "watchers": show.watchers,
            "pictures": show.pictures,
            "trouble": show.trouble,
        }

    def curve(self) -> list[list[float]]:
        """Steps and mean returns of the run so far, of some evenly chosen lines of its metrics."""
        points = [[line["step"], line.get("return")] for line in read_metrics(self._run.metrics_file)]
        known = [point for point in points if point[1] is not None and math.isfinite(point[1])]
        return known[:: max(1, -(-len(known) // POINTS))]

    def film(self) -> bytes | None:
        """The last whole episode as an MP4 file; None if none was watched yet.

        Raises:
            ImportError: PyAV is not installed.
        """
        episode, show = self.show.last, self.show
        if episode is None:
            return None
        with self._filming:
            if self._film[0] is not episode:
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "episode.mp4"
                    write_video(path, episode.frames(show.every), show.fps / show.every)
                    self._film = episode, path.read_bytes()
            return self._film[1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    timeout = LOOK

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Watchers may leave at any moment, which is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = STALLED

    def __init__(self, site: Site, *args: Any):
        self._site = site
        super().__init__(*args)

    def do_GET(self) -> None:
        if _host(self.headers.get("Host", "")) not in HOSTS:  # a foreign page whose name was made to mean this machine
            self._words(403, "this page is for this machine alone")
            return
        answers: dict[str, Callable[[], None]] = {
            "/": lambda: self._answer("text/html; charset=utf-8", PAGE.read_bytes()),
            "/status.json": lambda: self._json(self._site.status()),
            "/curve.json": lambda: self._json(self._site.curve()),
            "/episode.mp4": self._film,
            "/stream": self._stream,
        }
        answer = answers.get(self.path.partition("?")[0])
        if answer is None:
            self._words(404, f"nothing is here; there are {' '.join(answers)}")
            return
        try:
            answer()
        except StateError as error:
            self._words(500, str(error))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the trainer's."""

    def _film(self) -> None:
        try:
            film = self._site.film()
        except ImportError as error:
            self._words(501, f"a video needs {error.name}: pip install 'headrace[train]'")
            return
        if film is None:
            self._words(404, "no whole episode has been watched yet")
        else:
            self._answer("video/mp4", film)

    def _stream(self) -> None:
        """Pictures, each in the place of the one before."""
        begun = False
        with closing(self._site.show.watch()) as pictures:
            try:
                for picture in pictures:
                    if not begun:
                        self._begin(200, f"multipart/x-mixed-replace; boundary={BOUNDARY}")
                        self.wfile.write(f"--{BOUNDARY}".encode())
                        begun = True
                    head = f"\r\nContent-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
                    # with the boundary behind it: a browser shows a picture once it knows that it is whole
                    self.wfile.write(head.encode() + picture + f"\r\n--{BOUNDARY}".encode())
                trouble = "the run is over"
            except RenderError as error:
                trouble = str(error)
        if not begun:
            self._words(503, trouble)

    def _json(self, content: Any) -> None:
        self._answer("application/json", json.dumps(content).encode())

    def _words(self, status: int, words: str) -> None:
        self._answer("text/plain; charset=utf-8", f"{words}\n".encode(), status)

    def _answer(self, kind: str, content: bytes, status: int = 200) -> None:
        self._begin(status, kind, len(content))
        self.wfile.write(content)

    def _begin(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def _listening(port: int, site: Site) -> _Server:
    """A server at the port where the last viewer of this run listened, so that open pages find it, or at any other."""
    try:
        return _Server((HOST, port), partial(_Handler, site))
    except OSError:
        if port == 0:
            raise
        return _listening(0, site)


def _host(header: str) -> str | None:
    """The name of the machine that a request is for, without the port."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _result(earned: float, steps: int, version: int) -> dict[str, float | None]:
    return {"return": _finite(earned), "steps": steps, "version": version}


def _finite(number: float) -> float | None:
    """A number that JSON has."""
    return number if math.isfinite(number) else None
