"""Starts, monitors and ends the worker processes of a pool.

Workers are forked from a server that has imported Gymnasium once, so that starting one takes about 10 ms, and this
process (its threads, its CUDA context) is not copied. Workers do not run the main script again, so it needs no
``if __name__ == "__main__"``; objects that it defines are pickled by value.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing import connection, util
from typing import Any

from headrace.errors import OptionError, WorkerError
from headrace.limits import cause_of_death, limits_named, need_files
from headrace.pool import by_value
from headrace.pool.executors.processes.worker import Orders, work
from headrace.pool.fork_server import OURS, server_context, starting

PRELOADED = "headrace.pool.executors.processes.worker"
FILES_EACH = 2  # number of open files in this process for each worker
FILES_TO_START = 16  # number of temporarily open files, for the server and one worker
PATIENCE = 2.0  # seconds after a request to stop after which a worker is killed


class WorkerProcesses:
    """The worker processes of a pool, one for each element of ``orders``; raises as `start` does."""

    def __init__(self, orders: list[Orders]):
        self._orders = orders
        self._processes: list[Any] = [None] * len(orders)
        # a program that ends without closing its pool would wait for them, as they ignore TERM
        self._exit = util.Finalize(None, _kill, (self._processes,), exitpriority=0)
        what = f"starting {len(orders)} worker processes"
        need_files(FILES_EACH * len(orders) + FILES_TO_START, what)
        self._context = server_context(PRELOADED)
        try:
            for number in range(len(orders)):
                self.start(number)
        except BaseException:
            self.close()
            raise

    def start(self, number: int) -> None:
        """Starts one worker, also in place of one that has died.

        Raises:
            WorkerError: this process must not start processes, such as a daemonic one of `multiprocessing.Pool`, or
                the worker could not be started.
            LimitError: the system starts no more processes.
        """
        if multiprocessing.current_process().daemon:
            raise WorkerError("a daemonic process cannot start worker processes: make the pool in another one")
        with limits_named(f"starting worker process {number}"), starting():
            process = self._context.Process(
                target=work, args=(self._orders[number],), name=f"{OURS}worker-{number}", daemon=True
            )
            _start(process)
        self._processes[number] = process

    def dead(self) -> list[int]:
        sentinels = {process.sentinel: number for number, process in enumerate(self._processes)}
        return sorted(sentinels[gone] for gone in connection.wait(list(sentinels), 0))

    def end(self, number: int) -> str:
        """Ends one worker if it still runs; returns a description of how it ended."""
        process = self._processes[number]
        if process.is_alive():
            process.kill()
        process.join()
        return cause_of_death(process.exitcode)

    def pid(self, number: int) -> int:
        """Returns a worker's process id."""
        return self._processes[number].pid

    def close(self, patience: float = PATIENCE) -> list[int]:
        """Waits until all workers have ended; kills and returns those that have not after ``patience`` seconds.

        If an exception such as a KeyboardInterrupt ends the wait, the others are killed at once.
        """
        until = time.monotonic() + patience
        try:
            for process in filter(None, self._processes):
                process.join(max(0.0, until - time.monotonic()))
        finally:
            killed = _kill(self._processes)
            while self._processes:
                if process := self._processes.pop():
                    process.join()
                    process.close()
            self._exit.cancel()
        return killed


def dumped(value: Any) -> bytes:
    """Returns the pickle of any function or object; those of the user's own script are pickled by value.

    Raises:
        OptionError: the value holds something that cannot be pickled, such as a lock or an open file.
    """
    try:
        return by_value.dumps(value)
    except by_value.UNPICKLABLE as error:
        raise OptionError(f"what is handed to worker processes must be what pickle can write down: {error}") from error


def _kill(processes: list[Any]) -> list[int]:
    """Kills the processes that still run, and returns their numbers."""
    running = [number for number, process in enumerate(processes) if process is not None and process.is_alive()]
    for number in running:
        processes[number].kill()
    return running


def _start(process: Any) -> None:
    try:
        process.start()
    except (EOFError, ConnectionError) as error:
        raise WorkerError(
            f"{process.name} could not be started ({error!r}): its server has no more processes or open files; "
            "what it has printed says which, and ulimit -u or ulimit -n raises the limit"
        ) from error
