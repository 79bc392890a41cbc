"""Writing beside training: a disk that is busy for seconds makes nobody wait.

What is written was copied before, or is such that it can be read while others go on writing it (a replay). One job is
done after the other, by one thread. What goes wrong is raised in the thread that asks how it went.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Writing:
    """Jobs that a thread does in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Callable[[], object]] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is still to be written."""
        with self._lock:
            return self._thread is not None

    def start(self, name: str, job: Callable[[], object]) -> None:
        """Do this when all before it is done; what has not begun under this name is dropped for it."""
        with self._lock:
            self._jobs[name] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="headrace-writing")
                self._thread.start()

    def check(self) -> None:
        """Raise what a job raised, once; those after it were not begun."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """Until all is written; then `check`."""
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
