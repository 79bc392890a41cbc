"""Startup and shutdown that all worker processes of training share.

A worker is stopped by its parent process, never by Ctrl-C. At its end it sends a report, and it ends when its parent
process has ended.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from typing import Any, NoReturn

from headrace.errors import HeadraceError, WorkerError
from headrace.limits import need_files
from headrace.pool.executors.processes.worker_processes import FILES_TO_START, deaf
from headrace.pool.sources import is_importable_main

PRELOADED = "headrace.train.workers.replay_sampler"
UNGUARDED = 79  # exit status of a worker whose import of the user's script started the script's training again


def guard_main() -> None:
    """Ends this process if it is a worker that imports the user's script, so that the script does not train again.

    Every worker imports the script that trains, as it may register tasks; code that is not under
    ``if __name__ == "__main__":`` then runs again. The parent process recognises the exit status and explains it.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)


def worker_context() -> Any:
    """Returns the `multiprocessing` context of workers, which forks them from a server that has imported all modules.

    A worker then starts within about 10 ms. The first call starts the server, and does not wait for it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    need_files(FILES_TO_START, "starting workers")
    with deaf():
        forkserver.ensure_running()
    return context


@contextmanager
def starting() -> Iterator[None]:
    """Makes processes started within this context ignore Ctrl-C, and import this program's script only if it is a file.

    A program from standard input has no such file, whatever its ``__file__``.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    hidden = file is not None and not is_importable_main()
    if hidden:
        del main.__file__
    try:
        with deaf():
            yield
    finally:
        if hidden:
            main.__file__ = file


@dataclass(frozen=True)
class Report:
    """The final report of a process: a result, or the exception that it raised, with time and traceback."""

    result: Any = None
    error: HeadraceError | None = None
    trace: str = ""
    at: float = 0.0

    @classmethod
    def of(cls, error: BaseException) -> Report:
        """Returns the report of an exception that is being handled, with the exception itself if it can be pickled."""
        known = error if isinstance(error, HeadraceError) and _can_travel(error) else None
        return cls(error=known, trace=traceback.format_exc(), at=time.monotonic())

    def told(self, who: str) -> WorkerError:
        """Returns a `WorkerError` that quotes the traceback of the process that ``who`` names."""
        return WorkerError(f"{who} raised:\n{self.trace}")

    def raise_as(self, who: str) -> NoReturn:
        """Raises the exception of the process that ``who`` names in this process."""
        if self.error is not None:
            raise self.error from self.told(who)
        raise self.told(who)


def end_with_parent() -> None:
    """Waits for the parent process to end, and then ends this one; runs in its own thread."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def take_cores(rank: int, size: int) -> None:
    """Restricts this process to its share, one of ``size``, of the cores, so that it uses no more threads."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        each = len(cores) // size
        if each:
            os.sched_setaffinity(0, cores[rank * each : (rank + 1) * each])


def cause_of_death(code: int | None) -> str:
    """Returns a description of an exit status."""
    if code is not None and code < 0:
        name = {each.value: each.name for each in signal.Signals}.get(-code, f"signal {-code}")
        return f"killed by {name}" + (" (is there enough memory?)" if name == "SIGKILL" else "")
    return f"exit status {code}"


def raise_unguarded(code: int | None) -> None:
    """Raises `WorkerError` if a process ended in `guard_main`."""
    if code == UNGUARDED:
        script = getattr(sys.modules["__main__"], "__file__", "the script")
        raise WorkerError(
            f"{script} trains with several processes, each of which imports it: "
            'put what it does under  if __name__ == "__main__":'
        )


def _can_travel(error: HeadraceError) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
