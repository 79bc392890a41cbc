"""Writing of files in a background thread, so that training does not wait for the disk.

The data are copied before, or may be read while they are written to, as those of a replay. A single thread runs one job
after the other. Errors are raised in the thread that calls `check` or `wait`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Writing:
    """Jobs that a background thread runs in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Callable[[], object]] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        with self._lock:
            return self._thread is not None

    def start(self, name: str, job: Callable[[], object]) -> None:
        """Runs ``job`` after all earlier jobs; it replaces a job of the same name that has not begun."""
        with self._lock:
            self._jobs[name] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="headrace-writing")
                self._thread.start()

    def check(self) -> None:
        """Raises the exception of a job, once; the jobs after it have not been run."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """Waits until all jobs are done; then calls `check`."""
        thread = self._thread
        if thread is not None:
            thread.join()
        self.check()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.pop(next(iter(self._jobs)))
            try:
                job()
            except BaseException as error:
                with self._lock:
                    self._error, self._jobs = error, {}
