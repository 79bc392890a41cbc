"""A run's page, served on demand: a thread waits at a socket until a browser connects.

The first connection starts the page's server as a separate process, which takes over the socket. A run whose page is
not open therefore needs no server. The address is in ``viewer.json``. A server outlives the run as long as a page is
open.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.errors import StorageError
from headrace.train.runs import files
from headrace.train.runs.files import replace
from headrace.train.runs.folder import RunFolder

HOST = "127.0.0.1"
POLL = 0.5  # seconds between checks whether the server still runs
NICE = 19
SERVER = (sys.executable, "-m", "headrace.watch")
"""the server's command, without the arguments: the run folder, and ``--fd`` with the socket"""
_left: list[subprocess.Popen[bytes]] = []
"""servers that outlive their run; `subprocess` warns of running processes whose objects are freed"""


class Page:
    """The socket of a run's page, and the thread that starts its server.

    Raises:
        OSError: no port can be opened.
    """

    def __init__(self, run: RunFolder):
        self._run = run
        # the port of a killed run, so that open pages reconnect
        self._socket = _listening((_read(run) or {}).get("port", 0))
        port = self._socket.getsockname()[1]
        self.address = f"http://{HOST}:{port}"
        self._wake, self._woken = os.pipe()
        self._server: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._wait, name="headrace-page", daemon=True)
        self._thread.start()
        with contextlib.suppress(StorageError):  # the address is also printed
            text = json.dumps({"url": self.address, "port": port, "pid": os.getpid()})
            replace(run.viewer_file, text + "\n")

    def close(self) -> None:
        """Closes the socket; a running server continues as long as a page is open."""
        os.close(self._woken)
        self._thread.join()
        os.close(self._wake)
        self._socket.close()
        if self._server is not None and self._server.poll() is None:
            _left.append(self._server)
        if (_read(self._run) or {}).get("pid") == os.getpid():
            with contextlib.suppress(OSError):
                self._run.viewer_file.unlink(missing_ok=True)

    def _wait(self) -> None:
        """Starts a server when a browser connects, and again after it has ended; the thread's function."""
        while True:
            come, _, _ = select.select([self._socket, self._wake], [], [])
            if self._wake in come or self._serve():
                return

    def _serve(self) -> bool:
        """Starts a server, and waits until it has ended; returns whether to close the socket."""
        try:
            self._server = _started(self._run.path, self._socket)
        except OSError as error:
            self._refuse(f"the page's server cannot be started: {error}")
            return False
        while self._server.poll() is None:
            if select.select([self._wake], [], [], POLL)[0]:
                return True
        if self._server.returncode != 0:
            self._refuse(
                f"the page's server has failed ({self._server.returncode}): "
                f"python -m pip install 'headrace[train]', or  headrace watch {self._run.path}  says why"
            )
        return False

    def _refuse(self, words: str) -> None:
        """Answers waiting connections with an error, so that they neither wait for ever nor start further servers."""
        content = f"{words}\n".encode()
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(content)}\r\nConnection: close\r\n"
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                visitor, _ = self._socket.accept()
                with visitor, contextlib.suppress(OSError):
                    visitor.settimeout(POLL)
                    visitor.recv(1 << 16)
                    visitor.sendall(f"{head}Content-Type: text/plain; charset=utf-8\r\n\r\n".encode() + content)


@contextmanager
def page_of(run: RunFolder, wanted: bool) -> Iterator[str | None]:
    """Serves a run's page within this context, if it is ``wanted``; yields the address, or None without a page."""
    page = None
    if wanted:
        with contextlib.suppress(OSError):  # without a port, the run trains without a page
            page = Page(run)
    try:
        yield None if page is None else page.address
    finally:
        if page is not None:
            page.close()


def address_of(run: RunFolder) -> str | None:
    """Returns the address of a run's page, read from its folder; None if there is none."""
    said = _read(run)
    return None if said is None else f"http://{HOST}:{said['port']}"


def _listening(port: int) -> socket.socket:
    """Returns a socket at this port, or at any free one."""
    try:
        return socket.create_server((HOST, port), backlog=64)
    except OSError:
        if port == 0:
            raise
        return socket.create_server((HOST, 0), backlog=64)


def _started(run: Path, door: socket.socket) -> subprocess.Popen[bytes]:
    """Starts the server with the socket, in a session that Ctrl-C does not reach, with the lowest priority."""
    descriptor = door.fileno()
    nothing, command = subprocess.DEVNULL, [*SERVER, str(run.resolve()), "--fd", str(descriptor)]
    server = subprocess.Popen(
        command, pass_fds=[descriptor], stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, server.pid, NICE)
    return server


def _read(run: RunFolder) -> dict[str, Any] | None:
    try:
        said = json.loads(files.read(run.viewer_file))
        return said if isinstance(said["port"], int) and 0 < said["port"] < 2**16 and said["pid"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
