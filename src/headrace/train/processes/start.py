"""Startup and shutdown that all worker processes of training share.

A worker is stopped by its parent process, never by Ctrl-C. At its end it sends a report, and it ends when its parent
process has ended.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from headrace.errors import HeadraceError, ScriptError, WorkerError
from headrace.limits import need_files
from headrace.machine import MOST_CORES, usable_cores
from headrace.pool.by_value import UNPICKLABLE
from headrace.pool.executors.processes.worker_processes import FILES_TO_START
from headrace.pool.fork_server import server_context
from headrace.pool.registry import parcel_of
from headrace.pool.sources import importing, is_importable_main
from headrace.train.settings.config import Config

PRELOADED = "headrace.train.workers.samplers"
GUARD = 'put what it does under  if __name__ == "__main__":'
UNGUARDED = 79  # exit status of a worker whose import of the user's script started the script's training again


def guard_main() -> None:
    """Prevents that the user's file trains when it is imported for its task, and each of its runs imports it again.

    A worker that imports the script (`needs_script`), in which code that is not under ``if __name__ == "__main__":``
    runs again, ends at once. The parent process recognises the exit status and explains it.

    Raises:
        ScriptError: this process imports the file.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)
    if file := importing.get():
        raise ScriptError(f"{file} trains when it is imported for its task: {GUARD}")


def worker_context() -> Any:
    """Returns the `multiprocessing` context of workers, which forks them from a server that has imported all modules.

    A worker then starts within about 10 ms. The first call starts the server, and does not wait for it.
    """
    need_files(FILES_TO_START, "starting workers")
    return server_context(PRELOADED)


def needs_script(config: Config) -> bool:
    """Returns whether a run's workers must import the script that trains.

    They must if its settings name that file, or if its task is registered there and cannot be pickled, as kernels.
    """
    from headrace.train.runs.trust import own_files

    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None or not is_importable_main():
        return False
    if config.ray or Path(file).resolve() in own_files(vars(config)):
        return True
    try:
        parcel_of(config.task)
    except UNPICKLABLE:
        return True
    return False


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
        known = None
        if isinstance(error, HeadraceError):
            with suppress(Exception):
                pickle.loads(pickle.dumps(error))
                known = error
        return cls(error=known, trace=traceback.format_exc(), at=time.monotonic())

    def as_error(self, who: str) -> WorkerError:
        """Returns a `WorkerError` that quotes the traceback of the process that ``who`` names."""
        return WorkerError(f"{who} raised:\n{self.trace}")

    def raise_as(self, who: str) -> NoReturn:
        """Raises the exception of the process that ``who`` names in this process."""
        if self.error is not None:
            raise self.error from self.as_error(who)
        raise self.as_error(who)


def take_cores(rank: int, size: int) -> None:
    """Restricts this process, and those that it starts, to its share, one of ``size``, of the usable cores.

    Where a quota limits them, the share of the affinity is larger: the system chooses which of its cores it uses.
    """
    os.environ[MOST_CORES] = str(max(1, usable_cores() // size))
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        each = len(cores) // size
        if each:
            os.sched_setaffinity(0, cores[rank * each : (rank + 1) * each])


def raise_unguarded(code: int | None) -> None:
    """Raises `ScriptError` if a process ended in `guard_main`."""
    if code == UNGUARDED:
        script = getattr(sys.modules["__main__"], "__file__", "the script")
        raise ScriptError(f"{script} trains with several processes, each of which imports it for its task: {GUARD}")


def seed_of(config: Config, *path: int) -> int:
    """Returns a seed in [0, 2³¹) from the run's seed and a path of numbers that identifies one start of one worker.

    As starts are counted from 0 again when a run is resumed, ``path`` includes `Counters.begun` for a resumed worker.
    """
    return int(np.random.SeedSequence((config.seed, *path)).generate_state(1, np.uint32)[0] >> 1)
