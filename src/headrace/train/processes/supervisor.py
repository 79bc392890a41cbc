"""Processes that are started, watched over and ended as one.

A worker that dies is started again, and the others hardly notice: what it shares with them was made before it and
stays after it. Only a worker that fails again and again before it has done anything ends the run, with the words of
its last exception. One that lives, but does nothing for a while, is told of. All end with the process that started
them, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

from headrace.errors import WorkerError
from headrace.limits import need_files, refusal
from headrace.pool.executors.processes.crew import FILES_TO_START
from headrace.train.processes.start import (
    Report,
    cause_of_death,
    deaf,
    end_with_parent,
    raise_unguarded,
    worker_context,
)

MOST_RAISED = 2  # times in a row that a worker may raise, or end by itself, before it has done anything
MOST_KILLED = 20  # times in a row that it may be killed before it has
PATIENCE = 3.0  # seconds in which workers may end by themselves once they are told
STARTS = 5  # times that a process is asked for
PAUSE = 0.1  # seconds between two of them
UNKNOWN = 255  # the exit status of a process whose server was killed
STILL = 10.0  # seconds without a pulse after which a worker is told of


@dataclass
class _Worker:
    """One process, as often as it was started.

    Attributes:
        progress: answers a number that grows as the worker does what it is for.
        pulse: answers one that changes as long as it runs, also while it waits; None if it has none.
        felt, moved: that number when it changed last, and when that was; 0 before it begins.
        still: whether somebody was told since that it does not change.
    """

    name: str
    target: Callable[..., None]
    arguments: tuple[Any, ...]
    progress: Callable[[], int]
    pulse: Callable[[], int] | None
    process: Any = None
    pipe: Any = None
    lives: int = 0
    raised: int = 0
    killed: int = 0
    reached: int = 0
    felt: int = 0
    moved: float = 0.0
    still: bool = False


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
        self,
        name: str,
        target: Callable[..., None],
        *arguments: Any,
        progress: Callable[[], int] = lambda: 0,
        pulse: Callable[[], int] | None = None,
    ) -> None:
        """Start ``target(*arguments, life)`` in a process of its own; ``life`` counts how often it was started.

        Raises:
            LimitError: the process has too many open files.
            WorkerError: the system starts no process any more.
        """
        worker = _Worker(name, target, arguments, progress, pulse)
        self._begin(worker)
        self._workers.append(worker)

    def pids(self) -> dict[str, int]:
        """The processes by name."""
        return {worker.name: worker.process.pid for worker in self._workers}

    def check(self) -> list[str]:
        """Start dead workers again; answers, in words, what happened to them, and who does nothing.

        Raises:
            WorkerError: one fails whenever it is started, with what it raised.
            HeadraceError: it raised one, which says what is wrong with the run's settings.
        """
        words = [_felt(worker) if worker.process.is_alive() else self._again(worker) for worker in self._workers]
        return [each for each in words if each]

    def _begin(self, worker: _Worker) -> None:
        worker.reached = worker.progress()
        worker.felt, worker.moved, worker.still = _pulse(worker), 0.0, False
        worker.process = self._started(worker)
        worker.lives += 1

    def _started(self, worker: _Worker) -> Any:
        """A new process; who forks it may have been killed, and is then started again."""
        attempts = 0
        need_files(FILES_TO_START, f"starting the {worker.name}")
        while True:
            worker.pipe, theirs = self._context.Pipe(duplex=False)
            process = self._context.Process(
                target=_live,
                args=(theirs, worker.target, worker.arguments, worker.lives),
                name=f"headrace-{worker.name}",
            )
            try:
                with deaf():
                    process.start()
                return process
            except (EOFError, OSError) as error:
                worker.pipe.close()
                attempts += 1
                if attempts == STARTS:
                    reason = refusal(error) or f"{error!r}; is there a limit on processes (ulimit -u)?"
                    raise WorkerError(f"the {worker.name} cannot be started: {reason}") from error
            finally:
                theirs.close()
            time.sleep(PAUSE)

    def _again(self, worker: _Worker) -> str:
        worker.process.join()
        report, code = _heard(worker.pipe), worker.process.exitcode
        _make_sure(worker)
        worker.pipe.close()
        if worker.progress() > worker.reached:
            worker.raised = worker.killed = 0
        raise_unguarded(code)
        if report is None:
            worker.killed += 1
            words = f"the {worker.name} died ({cause_of_death(code)})"
            if worker.killed > (MOST_RAISED if code == 1 else MOST_KILLED):
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
            _make_sure(worker)
            worker.pipe.close()
        self._workers.clear()


def _pulse(worker: _Worker) -> int:
    return 0 if worker.pulse is None else worker.pulse()


def _felt(worker: _Worker) -> str | None:
    """In words, that a living worker does nothing any more, or does again; None as long as that is no news."""
    now, pulse = time.monotonic(), _pulse(worker)
    if pulse != worker.felt:
        told, worker.felt, worker.moved, worker.still = worker.still, pulse, now, False
        return f"the {worker.name} goes on" if told else None
    if worker.still or not worker.moved or now - worker.moved < STILL:
        return None
    worker.still = True
    return f"the {worker.name} has done nothing for {STILL:.0f} s: is its process, {worker.process.pid}, stopped?"


def _make_sure(worker: _Worker) -> None:
    """End a process that passes for dead, as all do whose server was killed: only one may write where it wrote."""
    if worker.process.exitcode == UNKNOWN:
        with contextlib.suppress(EOFError, OSError):
            os.kill(worker.process.pid, signal.SIGKILL)
            while worker.pipe.poll(PATIENCE):  # its end is open as long as it lives
                worker.pipe.recv()


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
