"""Runs the page's server: for ``headrace watch`` until Ctrl-C, or for one run on a socket that training passes on."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from headrace.errors import OptionError
from headrace.machine import give_way
from headrace.train.runs import lock
from headrace.watch.app import Site
from headrace.watch.library import Library

HOST = "127.0.0.1"
PORT = 7420
POLL = 1.0  # seconds between checks whether a run is over
LINGER = 5.0  # seconds for which the server waits after the last page was closed, which may be a reload
PATIENCE = 60.0  # seconds for which it waits after a run's end if no page was ever open
GRACE = 1  # seconds for connections to close


def listening(host: str = HOST, port: int | None = None) -> socket.socket:
    """Returns a listening socket on ``port``; by default on `PORT`, or on any free port if that is taken.

    Raises:
        OptionError: there is no such host, or the given port is taken.
    """
    wanted = PORT if port is None else port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, wanted, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise OptionError(f"--host {host} is not an address of this machine: {error}") from error
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        _bind(found, address, anywhere=port is None)
        found.listen(128)
    except OSError as error:
        found.close()
        raise OptionError(f"nothing can listen at {host}, port {wanted}: {error.strerror}; try --port 0") from error
    return found


def _bind(found: socket.socket, address: tuple, *, anywhere: bool) -> None:
    try:
        found.bind(address)
    except OSError:
        if not anywhere:
            raise
        found.bind((address[0], 0, *address[2:]))


def is_loopback(host: str) -> bool:
    """Returns whether a host is a loopback address, which only this machine can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    library: Library, found: socket.socket, host: str, ready: Callable[[list[str]], object], gallery: bool = False
) -> None:
    """Serves the page until Ctrl-C.

    Args:
        library: the runs.
        found: a listening socket.
        host: the host, as the user gave it.
        ready: a function that is called with the page's URLs; the first one is for this machine.
        gallery: whether the zoo's agents are shown first, as there are no runs yet.
    """
    give_way()
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    server = uvicorn.Server(_config(Site(library, gallery), host, token))
    end = f":{found.getsockname()[1]}/" + (f"?token={token}" if token else "")
    ready([f"http://{name}{end}" for name in _names(host)])
    with contextlib.suppress(KeyboardInterrupt):
        server.run([found])


def _names(host: str) -> list[str]:
    """Returns the names for a host in URLs; an address such as 0.0.0.0 is replaced by names that browsers can open."""
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return [host]
    if everywhere:
        return ["127.0.0.1", socket.gethostname()]
    return [f"[{host}]" if ":" in host else host]


def serve_run(run: Path, descriptor: int) -> None:
    """Serves the page of one run, on an inherited socket, until the run is over and no page is open.

    Args:
        run: the run folder.
        descriptor: the descriptor of a socket that listens on loopback addresses.
    """
    give_way()
    found = socket.socket(fileno=descriptor)
    found.setblocking(False)
    site = Site(Library([run]))
    asyncio.run(_serve_run(run, site, _RunServer(_config(site, HOST, None)), found))


async def _serve_run(run: Path, site: Site, server: uvicorn.Server, found: socket.socket) -> None:
    watching = asyncio.create_task(_end_after(run, site, server))
    await server.serve([found])
    watching.cancel()


async def _end_after(run: Path, site: Site, server: uvicorn.Server) -> None:
    """Ends the server once the run is over and no page is open, after `LINGER` or `PATIENCE` seconds."""
    needed = time.monotonic()
    while True:
        now = time.monotonic()
        if site.open_pages or lock.holder(run / "train.lock") is not None:
            needed = now
        elif now - needed > (LINGER if site.visited else PATIENCE):
            server.should_exit = True
            return
        await asyncio.sleep(POLL)


class _RunServer(uvicorn.Server):
    """A server that ignores Ctrl-C, since that ends the training in the same terminal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Returns a context in which the server handles SIGTERM and ignores SIGINT."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self.handle_exit)
        yield


def _config(site: Site, host: str, token: str | None) -> uvicorn.Config:
    return uvicorn.Config(
        site.app(host, token),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        server_header=False,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=GRACE,
    )
