"""What every process that takes part in training does at its start and at its end.

A process that trains is told to stop by the one that started it, never by Ctrl-C; it says how it ended, and
it ends when that one is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from typing import Any, NoReturn

from headrace.errors import HeadraceError, WorkerError

PRELOADED = "headrace.train.workers.sampler"


def worker_context() -> Any:
    """How workers are started: forked from a server that has imported everything once, within a few hundredths of a
    second. The first call starts the server, and does not wait for it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    with deaf():
        forkserver.ensure_running()
    return context


@dataclass(frozen=True)
class Report:
    """What a process says at its end: a result, or what it raised, when, and how."""

    result: Any = None
    error: HeadraceError | None = None
    trace: str = ""
    at: float = 0.0

    @classmethod
    def of(cls, error: BaseException) -> Report:
        """What is told of an exception that is being handled: itself, if it is one of ours."""
        known = error if isinstance(error, HeadraceError) and _can_travel(error) else None
        return cls(error=known, trace=traceback.format_exc(), at=time.monotonic())

    def told(self, who: str) -> WorkerError:
        """The words it was raised with there."""
        return WorkerError(f"{who} raised:\n{self.trace}")

    def raise_as(self, who: str) -> NoReturn:
        """Raise it here."""
        if self.error is not None:
            raise self.error from self.told(who)
        raise self.told(who)


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C from their first moment on; they are told otherwise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_with_parent() -> None:
    """For a thread of its own: end this process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def take_cores(rank: int, size: int) -> None:
    """Keep to an equal part of the cores, so that environments and torch make as many threads as there are."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        each = len(cores) // size
        if each:
            os.sched_setaffinity(0, cores[rank * each : (rank + 1) * each])


def cause_of_death(code: int | None) -> str:
    """An exit status in words."""
    if code is not None and code < 0:
        name = {each.value: each.name for each in signal.Signals}.get(-code, f"signal {-code}")
        return f"killed by {name}" + (" (is there enough memory?)" if name == "SIGKILL" else "")
    guard = ' (is the script\'s own code under if __name__ == "__main__":?)' if code == 1 else ""
    return f"exit status {code}{guard}"


def _can_travel(error: HeadraceError) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
