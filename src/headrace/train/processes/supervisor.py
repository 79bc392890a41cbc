"""The start, monitoring and end of a run's worker processes.

A worker that dies is started again without affecting the others, as it owns none of the memory that they share. The
third death within a minute ends the run, and so does a worker that fails repeatedly before it has made any progress,
with its last exception. A worker that is alive but makes no progress for a while is reported. All workers end with
their parent process, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import WorkerError
from headrace.limits import cause_of_death, need_files, refusal
from headrace.pool.executors.processes.deaths import Deaths
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.pool.executors.processes.worker_processes import FILES_TO_START
from headrace.pool.fork_server import heed_parent, starting
from headrace.pool.remarks import heard_by
from headrace.train.processes.start import Report, raise_unguarded, worker_context

MOST_RAISED = 2  # consecutive starts of a worker that may end without progress
PATIENCE = 3.0  # maximum wait for workers to end after they were told to stop, in seconds
STARTS = 5  # attempts to start a process
PAUSE = 0.1  # seconds between two attempts
UNKNOWN = 255  # the exit status of a process whose server was killed
STILL = 10.0  # seconds without a pulse after which a worker is reported
RESTARTED = "; it was started again"
"""the end of a message about a restart"""


@dataclass
class _Worker:
    """One worker, over all starts of its process.

    Attributes:
        progress: returns a number that increases with the worker's work.
        pulse: returns a number that changes as long as the worker runs, also while it waits; None if it has none.
        felt, moved: the last known value of the pulse, and the time at which it changed; 0 before the start.
        report: the report of its end, once it has arrived.
        still: whether it has been reported that the pulse does not change.
    """

    name: str
    target: Callable[..., None]
    arguments: tuple[Any, ...]
    progress: Callable[[], int]
    pulse: Callable[[], int] | None
    process: Any = None
    pipe: Any = None
    report: Report | None = None
    lives: int = 0
    fruitless: int = 0
    reached: int = 0
    felt: int = 0
    moved: float = 0.0
    still: bool = False


class Supervisor:
    """The worker processes of a run; a context manager at whose end all of them have ended.

    Args:
        tell: called once to tell the workers to stop; sets the flag that their loops read.
        patience: maximum wait until they have ended, in seconds.
    """

    def __init__(self, tell: Callable[[], None], patience: float = PATIENCE, script: bool = False):
        self._tell, self._patience, self._script = tell, patience, script
        self._context = worker_context()
        self._workers: list[_Worker] = []
        self._deaths = Deaths()
        self.restarts = 0

    def start(
        self,
        name: str,
        target: Callable[..., None],
        *arguments: Any,
        progress: Callable[[], int] = lambda: 0,
        pulse: Callable[[], int] | None = None,
    ) -> None:
        """Starts ``target(*arguments, restarts)`` in its own process; ``restarts`` is the number of earlier starts."""
        worker = _Worker(name, target, arguments, progress, pulse)
        self._begin(worker)
        self._workers.append(worker)

    def pids(self) -> dict[str, int]:
        return {worker.name: worker.process.pid for worker in self._workers}

    def check(self) -> list[str]:
        """Restarts dead workers; returns messages about them and about workers whose pulse has stopped, and remarks.

        Raises:
            WorkerError: a worker fails at every start; the message holds its traceback.
            HeadraceError: the exception of a worker, for example for an invalid setting of the run.
        """
        words: list[str | None] = []
        for worker in self._workers:
            words += _remarks(worker)
            words.append(_hang_or_death(worker) if worker.process.is_alive() else self._again(worker))
        return [each for each in words if each]

    def _begin(self, worker: _Worker) -> None:
        worker.reached = worker.progress()
        worker.felt, worker.moved, worker.still = _progress_of(worker), 0.0, False
        worker.report, worker.process = None, self._started(worker)
        worker.lives += 1

    def _started(self, worker: _Worker) -> Any:
        """Returns a new process; restarts the fork server if it was killed."""
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
                with starting(self._script):
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
        _remarks(worker)
        report, code = worker.report, worker.process.exitcode
        _make_sure(worker)
        worker.pipe.close()
        worker.fruitless = 0 if worker.progress() > worker.reached else worker.fruitless + 1
        raise_unguarded(code)
        if report is None:
            words = f"the {worker.name} died ({cause_of_death(code)})"
            if too_many := self._deaths.one_too_many():
                raise WorkerError(f"{words}{too_many}; the run was ended")
            if worker.fruitless > MOST_RAISED:
                raise WorkerError(f"{words} {worker.fruitless} times before it had done anything; the run was ended")
        else:
            words = f"the {worker.name} raised {report.trace.strip().splitlines()[-1]}"
            if report.error is not None or worker.fruitless > MOST_RAISED:
                report.raise_as(f"the {worker.name}")
        self._begin(worker)
        self.restarts += 1
        return f"{words}{RESTARTED}"

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, patience: float | None = None) -> None:
        """Tells all workers to stop, and kills those that have not ended after ``patience`` seconds."""
        self._tell()
        until = time.monotonic() + (self._patience if patience is None else patience)
        for worker in self._workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            _make_sure(worker)
            worker.pipe.close()
        self._workers.clear()


def _progress_of(worker: _Worker) -> int:
    return 0 if worker.pulse is None else worker.pulse()


def _hang_or_death(worker: _Worker) -> str | None:
    """Returns a message that a living worker's pulse has stopped or started again; None if nothing has changed."""
    now, pulse = time.monotonic(), _progress_of(worker)
    if pulse != worker.felt:
        told, worker.felt, worker.moved, worker.still = worker.still, pulse, now, False
        return f"the {worker.name} goes on" if told else None
    if worker.still or not worker.moved or now - worker.moved < STILL:
        return None
    worker.still = True
    return f"the {worker.name} has done nothing for {STILL:.0f} s: is its process, {worker.process.pid}, stopped?"


def _make_sure(worker: _Worker) -> None:
    """Kills a process that is reported as dead but may be alive, as after its server was killed.

    Only one process of a worker may write to the shared memory.
    """
    if worker.process.exitcode == UNKNOWN:
        with contextlib.suppress(EOFError, OSError):
            os.kill(worker.process.pid, signal.SIGKILL)
            while worker.pipe.poll(PATIENCE):  # the other end stays open as long as the process lives
                worker.pipe.recv()


def _remarks(worker: _Worker) -> list[str]:
    """Returns a worker's new remarks, and stores its report once it has sent it."""
    found: list[str] = []
    with contextlib.suppress(EOFError, OSError):
        while worker.report is None and worker.pipe.poll():
            heard = worker.pipe.recv()
            if isinstance(heard, Report):
                worker.report = heard
            else:
                found.append(f"the {worker.name}: {heard}")
    return found


def _live(pipe: Any, target: Callable[..., None], arguments: tuple[Any, ...], restarts: int) -> None:
    """Runs a worker, and sends the report of its end; the main function of its process."""
    heed_parent()
    try:
        with spaces_read_once(), heard_by(pipe.send):
            target(*arguments, restarts)
    except BaseException as error:
        pipe.send(Report.of(error))
