"""The start and supervision of the processes of data-parallel training on one machine.

Their connections are in `headrace.train.processes.process_group`. The main process only supervises: if a worker
raises an exception or dies, it ends the others and raises an error that names the worker. If the main process is
killed, its workers end as well.
"""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any, NoReturn

import torch.distributed as dist
from rich.console import Console

from headrace.errors import WorkerError
from headrace.limits import cause_of_death
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.pool.fork_server import heed_parent, starting
from headrace.pool.seeds import seed_globals
from headrace.train.collect.policies import find_device
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.place import Place
from headrace.train.processes.process_group import connect, leave
from headrace.train.processes.start import Report, needs_script, raise_unguarded, worker_context
from headrace.train.runners.assembly import train_in_process
from headrace.train.runners.result import Result
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import last_measurement, seconds_of
from headrace.train.settings.config import Config

GRACE = 5.0  # wait for further reports, and for a last checkpoint, after the first failure, in seconds
POLL = 0.1  # seconds between checks whether Ctrl-C was pressed
HERE = "127.0.0.1"


@dataclass(frozen=True)
class _Worker:
    """One process, and the pipe on which it sends the report of its end."""

    rank: int
    device: str
    process: Any
    pipe: connection.Connection

    def __str__(self) -> str:
        return f"training process {self.rank} (on {self.device})"


def train_together(config: Config, run_dir: Path, saved: Path | None, quiet: bool, trust: bool = False) -> Result:
    """Trains with one process on each of ``config.devices``; returns the result of the first one.

    Raises:
        HeadraceError: a process raised this error; subclasses are raised again unchanged.
        WorkerError: a process raised another exception, or died.
    """
    context = worker_context()
    size, stop = len(config.devices), context.Event()
    store = _store()
    workers: list[_Worker] = []
    run = RunFolder(run_dir)

    def reached() -> tuple[int, float]:
        line = last_measurement(run.metrics_file) or {}
        return line.get("step", 0), seconds_of(line) or 0.0

    with run.events.failure_noted(reached), Interrupt() as interrupt:
        try:
            with starting(needs_script(config)):
                for rank, device in enumerate(config.devices):
                    pipe, theirs = context.Pipe(duplex=False)
                    place = Place(rank, size, rank, size, HERE, store.port)
                    arguments = place, stop, theirs, config, run_dir, saved, quiet, trust
                    process = context.Process(target=_work, args=arguments, name=f"headrace-{rank}")
                    workers.append(_Worker(rank, device, process, pipe))
                    process.start()
                    theirs.close()
            return _watch(workers, interrupt, stop)
        finally:
            for worker in workers:
                if worker.process.pid is not None:
                    worker.process.kill()
                    worker.process.join()
                worker.pipe.close()
            if not quiet:
                Console().show_cursor()  # a process that is killed while it draws leaves the cursor hidden


def _watch(workers: list[_Worker], interrupt: Interrupt, stop: Any) -> Result:
    """Waits for the reports of all processes; raises once one of them has failed."""
    reports: dict[int, Report] = {}
    while len(reports) < len(workers):
        if interrupt:
            stop.set()
        dead = _listen(workers, reports)
        if dead or any(report.result is None for report in reports.values()):
            until = time.monotonic() + GRACE
            while len(reports) + len(dead) < len(workers) and time.monotonic() < until:
                dead = _listen(workers, reports)
            _raise(workers, dead, reports)
    result = reports[0].result
    assert result is not None
    return result


def _listen(workers: list[_Worker], reports: dict[int, Report]) -> list[_Worker]:
    """Receives reports for up to `POLL` seconds; returns the processes that ended without a report."""
    ended = [each for each in workers if not each.process.is_alive()]  # their reports, if any, can be received by now
    silent = {worker.pipe: worker for worker in workers if worker.rank not in reports}
    for pipe in connection.wait(list(silent), POLL):
        try:
            reports[silent[pipe].rank] = pipe.recv()  # type: ignore[index, union-attr]
        except (EOFError, OSError):
            time.sleep(POLL / 10)  # the process died; its exit status follows
    return [worker for worker in ended if worker.rank not in reports]


def _raise(workers: list[_Worker], dead: list[_Worker], reports: dict[int, Report]) -> NoReturn:
    """Raises the error of the first failure, from which the lost connections of other processes follow."""
    raised = sorted((report.at, rank) for rank, report in reports.items() if report.result is None)
    first = workers[raised[0][1]] if raised else None
    if dead:
        raise_unguarded(dead[0].process.exitcode)
        words = f"{dead[0]} died: {cause_of_death(dead[0].process.exitcode)}; the run was ended"
        raise WorkerError(words) from (first and reports[first.rank].as_error(str(first)))
    assert first is not None
    reports[first.rank].raise_as(str(first))


# -- the processes that train --------------------------------------------------------------------


@spaces_read_once()
def _work(
    place: Place, stop: Any, pipe: Any, config: Config, run_dir: Path, saved: Path | None, quiet: bool, trust: bool
) -> None:
    heed_parent()
    try:
        place.take_share_of_cores()
        seed_globals(config.seed + place.rank * config.num_envs)
        device = str(find_device(config.devices[place.rank]))
        group = connect(place, _store(place.port), stop.is_set, lambda _: device, watched=True)
        run = RunFolder(run_dir)
        report = Report(train_in_process(config, run, saved, quiet or not group.leads, group, trust=trust))
    except BaseException as error:
        report = Report.of(error)
    pipe.send(report)
    sys.stdout.flush()
    leave()  # after the report, since the other processes fail once a connection is lost


def _store(port: int = 0) -> Any:
    """Returns the store through which processes connect; without a port a new one, local to this machine."""
    if port:
        return dist.TCPStore(HERE, port, is_master=False, wait_for_workers=False)  # type: ignore[reportPrivateImportUsage]
    # without a listener of its own, TCPStore would accept connections from the whole network
    listener = socket.create_server((HERE, 0))
    return dist.TCPStore(  # type: ignore[reportPrivateImportUsage]
        HERE, listener.getsockname()[1], is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )
