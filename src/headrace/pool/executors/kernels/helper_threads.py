"""Helper threads that share one large launch with the calling thread.

Kernels release the GIL, so plain Python threads suffice. Handing work to a helper costs tens of microseconds: the
caller decides whether that is worthwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from headrace.errors import OptionError

Job = Callable[[], object]


class HelperThreads:
    """Threads that wait for jobs; `close` ends them.

    Args:
        helpers: number of threads.
        first_core: if ≥ 0, helper i is pinned to the core ``first_core + 1 + i`` of those that this process may use.

    Raises:
        OptionError: the system refuses to start a thread; those already started have been ended.
    """

    def __init__(self, helpers: int, first_core: int = -1):
        self._helpers: list[_Helper] = []
        try:
            for i in range(helpers):
                self._helpers.append(_Helper(first_core + 1 + i if first_core >= 0 else None))
        except BaseException as error:
            started = len(self._helpers)
            self.close()
            if not isinstance(error, RuntimeError | MemoryError):
                raise
            what = f"num_threads: the system started {started} of {helpers} threads: {error}; ask for fewer"
            raise OptionError(what) from error

    def run(self, jobs: Sequence[Job]) -> None:
        """Runs all jobs, at most one more than there are helpers, and returns when all are done.

        An exception of a job, or one raised by a signal handler meanwhile, is raised after all jobs are done, so that
        all rows are complete.
        """
        helpers = self._helpers[: len(jobs) - 1]
        try:
            for helper, job in zip(helpers, jobs[1:], strict=True):
                helper.begin(job)
            jobs[0]()
        finally:
            _wait_for(helpers)
        for helper in helpers:
            if helper.raised is not None:
                raise helper.raised

    def close(self) -> None:
        """Ends the threads. Further calls have no effect."""
        for helper in self._helpers:
            helper.end()
        self._helpers = []


class _Helper:
    """One thread. Both sides signal with locks, whose methods no exception of a signal handler can interrupt."""

    def __init__(self, core: int | None):
        self._core = core
        self._job: Job | None = None
        self.busy = False
        self._begun, self.done = threading.Lock(), threading.Lock()
        self._begun.acquire()
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="headrace-kernels", daemon=True)
        self._thread.start()

    def begin(self, job: Job) -> None:
        self.done.acquire(False)
        self.busy, self._job = True, job
        self._begun.release()

    def end(self) -> None:
        _wait_for([self])
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
            self.raised = _attempt(self._job)
            self.busy = False
            with suppress(RuntimeError):  # already released; the waiting thread tests `busy` again
                self.done.release()


def _wait_for(helpers: Sequence[_Helper]) -> None:
    """Waits until all helpers are idle; then raises the last exception that a signal handler raised meanwhile."""
    raised = None
    for helper in helpers:
        while helper.busy:
            try:
                helper.done.acquire()
            except BaseException as error:
                raised = error
    if raised is not None:
        raise raised


def _attempt(job: Job) -> BaseException | None:
    try:
        job()
    except BaseException as error:
        return error
    return None
