"""Processes that are started, watched over and ended as one.

A worker that dies is started again, and the others hardly notice: what it shares with them was made before it and
stays after it. Only a worker that fails again and again before it has done anything ends the run, with the words of
its last exception. All end with the process that started them, however that ends.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from headrace.errors import WorkerError
from headrace.train.processes import Report, cause_of_death, deaf, end_with_parent, worker_context

MOST_RAISED = 2  # times in a row that a worker may raise before it has done anything
MOST_KILLED = 20  # times in a row that it may be killed before it has
PATIENCE = 3.0  # seconds in which workers may end by themselves once they are told


@dataclass
class _Worker:
    """One process, as often as it was started.

    Attributes:
        progress: answers a number that grows as the worker does what it is for.
    """

    name: str
    target: Callable[..., None]
    arguments: tuple[Any, ...]
    progress: Callable[[], int]
    process: Any = None
    pipe: Any = None
    lives: int = 0
    raised: int = 0
    killed: int = 0
    reached: int = 0
    last: Report = field(default_factory=Report)


class Supervisor:
    """The worker processes of a run; a context manager that leaves none behind.

    Args:
        tell: called once when they shall end; sets what their loops look at.

    Attributes:
        restarts: how often a worker was started again.
    """

    def __init__(self, tell: Callable[[], None]):
        self._tell = tell
        self._context = worker_context()
        self._workers: list[_Worker] = []
        self.restarts = 0

    def start(
        self, name: str, target: Callable[..., None], *arguments: Any, progress: Callable[[], int] = lambda: 0
    ) -> None:
        """Start ``target(*arguments, life)`` in a process of its own; ``life`` counts how often it was started."""
        worker = _Worker(name, target, arguments, progress)
        self._begin(worker)
        self._workers.append(worker)

    def pids(self) -> dict[str, int]:
        """The processes by name."""
        return {worker.name: worker.process.pid for worker in self._workers}

    def check(self) -> list[str]:
        """Start dead workers again; answers, in words, what happened to them.

        Raises:
            WorkerError: one fails whenever it is started, with what it raised.
            HeadraceError: it raised one, which says what is wrong with the run's settings.
        """
        return [self._again(worker) for worker in self._workers if not worker.process.is_alive()]

    def _begin(self, worker: _Worker) -> None:
        worker.pipe, theirs = self._context.Pipe(duplex=False)
        worker.reached = worker.progress()
        with deaf():
            process = self._context.Process(
                target=_live,
                args=(theirs, worker.target, worker.arguments, worker.lives),
                name=f"headrace-{worker.name}",
            )
            process.start()
        worker.process = process
        theirs.close()
        worker.lives += 1

    def _again(self, worker: _Worker) -> str:
        worker.process.join()
        report, code = _heard(worker.pipe), worker.process.exitcode
        worker.pipe.close()
        if worker.progress() > worker.reached:
            worker.raised = worker.killed = 0
        if report is None:
            worker.killed += 1
            words = f"the {worker.name} died ({cause_of_death(code)})"
            if worker.killed > MOST_KILLED:
                raise WorkerError(f"{words} {worker.killed} times before it had done anything; the run was ended")
        else:
            worker.raised += 1
            words = f"the {worker.name} raised {report.trace.strip().splitlines()[-1]}"
            if report.error is not None or worker.raised > MOST_RAISED:
                report.raise_as(f"the {worker.name}")
        self._begin(worker)
        self.restarts += 1
        return f"{words}; it was started again"

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, patience: float = PATIENCE) -> None:
        """Tell all to end, and end those that do not within ``patience`` seconds."""
        self._tell()
        until = time.monotonic() + patience
        for worker in self._workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        self._workers.clear()


def _heard(pipe: connection.Connection) -> Report | None:
    """What a dead worker said; None if it had no time to."""
    try:
        return pipe.recv() if pipe.poll() else None
    except (EOFError, OSError):
        return None


def _live(pipe: Any, target: Callable[..., None], arguments: tuple[Any, ...], life: int) -> None:
    """A worker's process, from its start to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        target(*arguments, life)
    except BaseException as error:
        pipe.send(Report.of(error))
