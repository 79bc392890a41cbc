"""Helper threads that share one large launch with the calling thread.

Kernels release the GIL, so plain Python threads suffice. Handing a part to a helper
costs tens of microseconds: whether that pays is the caller's to decide.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

Job = Callable[[], object]


class Crew:
    """``helpers`` threads, idle until `run`; close it to end them."""

    def __init__(self, helpers: int, first_core: int = -1):
        """``first_core`` ≥ 0 pins helper i to the core ``first_core + 1 + i`` of those this process may use."""
        self._helpers = [_Helper(first_core + 1 + i if first_core >= 0 else None) for i in range(helpers)]

    def run(self, jobs: Sequence[Job]) -> None:
        """Do all jobs, at most one more than there are helpers, and return when the last is done.

        What a job raises is raised here then, an interrupt of the waiting too.
        """
        busy = self._helpers[: len(jobs) - 1]
        for helper, job in zip(busy, jobs[1:], strict=True):
            helper.begin(job)
        raised = _attempt(jobs[0])
        for helper in busy:
            raised = helper.finish() or raised
        if raised is not None:
            raise raised

    def close(self) -> None:
        """End the threads. Calling it again does nothing."""
        for helper in self._helpers:
            helper.end()
        self._helpers = []


class _Helper:
    def __init__(self, core: int | None):
        self._core = core
        self._job: Job | None = None
        self._raised: BaseException | None = None
        self._begun = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._loop, name="headrace-kernels", daemon=True)
        self._thread.start()

    def begin(self, job: Job) -> None:
        self._job = job
        self._begun.release()

    def finish(self) -> BaseException | None:
        """Wait for the job, through interrupts too, so that its rows are whole; return what was raised."""
        interrupt = None
        while True:
            try:
                self._done.acquire()
                return interrupt or self._raised
            except KeyboardInterrupt as error:
                interrupt = error

    def end(self) -> None:
        self._job = None
        self._begun.release()
        self._thread.join()

    def _loop(self) -> None:
        if self._core is not None:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[self._core % len(cores)]})
        while True:
            self._begun.acquire()
            if self._job is None:
                return
            self._raised = _attempt(self._job)
            self._done.release()


def _attempt(job: Job) -> BaseException | None:
    try:
        job()
    except BaseException as error:
        return error
    return None
