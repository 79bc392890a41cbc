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
        """Do all jobs, at most one more than there are helpers, and return when the last is done."""
        busy = self._helpers[: len(jobs) - 1]
        for helper, job in zip(busy, jobs[1:], strict=True):
            helper.begin(job)
        try:
            jobs[0]()
        finally:
            interrupt = None
            for helper in busy:
                while True:
                    try:
                        helper.wait()
                        break
                    except KeyboardInterrupt as error:  # first let the batch become whole
                        interrupt = error
            if interrupt is not None:
                raise interrupt

    def close(self) -> None:
        for helper in self._helpers:
            helper.end()
        self._helpers = []


class _Helper:
    def __init__(self, core: int | None):
        self._core = core
        self._job: Job | None = None
        self._begun = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._loop, name="headrace-kernels", daemon=True)
        self._thread.start()

    def begin(self, job: Job) -> None:
        self._job = job
        self._begun.release()

    def wait(self) -> None:
        self._done.acquire()

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
            self._job()
            self._done.release()
