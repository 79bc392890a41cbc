"""Helper threads that share one large launch with the calling thread.

A step of a thousand environments takes 20 to 200 µs, less than Python needs to hand work from thread to thread. So the
handover is compiled: caller and helpers claim rows of the launch until none are left, and the caller never waits for a
thread that sleeps or has no core. A helper looks for a launch until it has found none for some 100 µs, and then sleeps
on a futex until one needs it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.executors.kernels.launch import Call, Movable, Run, load, record
from headrace.pool.executors.processes.futex import LOOK, SYSTEM_CALL

LOOKS = 400  # times that a helper looks for a launch, giving its core away in between, before it sleeps
PARTS = 8  # of an equal share of the rows, one by which a share may be larger
TOGETHER = 64  # rows of which a share is a multiple if there are enough, so that threads write to different cache lines

LINE, HEAD, MOST_BYTES = 64, 192, 16384  # of a cache line, a board without helpers, and a launch's packed arguments
FUTEX = (SYSTEM_CALL or 0) if sys.platform.startswith("linux") else 0


@wp.func_native(cpp(__file__, "serve"))
def _serve(board: wp.uint64, thread: wp.uint64, looks: int) -> None: ...


@wp.func_native(cpp(__file__, "lead"))
def _lead(board: wp.uint64, call: wp.uint64) -> None: ...


@wp.func_native(cpp(__file__, "end"))
def _end(board: wp.uint64, helpers: int) -> None: ...


@wp.kernel(enable_backward=False, module="unique")
def _serving(board: wp.uint64, thread: wp.uint64, looks: int) -> None:
    _serve(board, thread, looks)


@wp.kernel(enable_backward=False, module="unique")
def _leading(board: wp.uint64, call: wp.uint64) -> None:
    _lead(board, call)


@wp.kernel(enable_backward=False, module="unique")
def _ending(board: wp.uint64, helpers: int) -> None:
    _end(board, helpers)


class HelperThreads:
    """Threads that take part in launches, started when the first launch needs them; `close` ends them.

    Args:
        helpers: the greatest number of threads.
        first_core: if ≥ 0, helper i is pinned to the core ``first_core + 1 + i`` of those that this process may use.
    """

    def __init__(self, helpers: int, first_core: int = -1):
        _load()
        self._memory = np.zeros(HEAD + LINE * (helpers + 1), np.uint8)
        self._board = -(-self._memory.ctypes.data // LINE) * LINE
        system = (ctypes.c_uint64 * 3).from_address(self._board + HEAD - LINE + 16)
        system[:] = _address_of("sched_yield"), _address_of("syscall"), FUTEX
        self._most, self._first_core = helpers, first_core
        self._threads: list[threading.Thread] = []
        lead = record(_leading, 1, [self._board, 0], "cpu", 1)
        assert isinstance(lead, Call)  # as the launches are
        self._lead = Movable(lead, [("call", "", 0)])

    def sharing(self, call: Call, rows: int) -> Callable[[int], object]:
        """Returns a function that runs a launch by as many threads as its argument says.

        No Python code runs meanwhile, so that an exception of a signal handler leaves no row undone.

        Args:
            call: the launch, whose arguments ``first`` and ``share`` say which rows it serves.
            rows: the number of its rows.
        """
        packed = call.args[1]
        if len(packed) > MOST_BYTES:
            return lambda threads: call()
        words = np.array(
            [*call.addresses, len(packed), call.offset("first"), call.offset("share"), rows, 0, 0], np.uint64
        )
        lead, current = self._lead.over([words.ctypes.data]), 0

        def run(threads: int, kept: object = (call, words, self._memory)) -> None:
            nonlocal current
            if threads != current:
                self._hire(threads - 1)
                words[7:] = min(TOGETHER, max(1, rows // (PARTS * threads))), threads
                current = threads
            lead()

        return run

    def close(self) -> None:
        """Ends the threads. Further calls have no effect."""
        self._most = 0
        record(_ending, 1, [self._board, len(self._threads)], "cpu", 1)()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _hire(self, helpers: int) -> None:
        """Starts threads until there are so many.

        Raises:
            OptionError: the system refuses to start one; those already started have been ended.
        """
        started = len(self._threads)
        try:
            for i in range(started, min(helpers, self._most)):
                core = self._first_core + 1 + i if self._first_core >= 0 else None
                serve = record(_serving, 1, [self._board, i + 1, LOOKS], "cpu", 1)
                thread = threading.Thread(
                    target=_live, args=(self._memory, self._board, serve, core), name="headrace-kernels", daemon=True
                )
                thread.start()
                self._threads.append(thread)
        except (RuntimeError, MemoryError) as error:
            started, most = len(self._threads), self._most
            self.close()
            what = f"num_threads: the system started {started} of {most} threads: {error}; ask for fewer"
            raise OptionError(what) from error


def _live(memory: np.ndarray, board: int, serve: Run, core: int | None) -> None:
    """The life of a helper, which keeps the memory of its board."""
    if core is not None:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})
    ended = ctypes.c_uint64.from_address(board + HEAD - LINE + 8)
    while not ended.value:
        serve()  # which returns before the end only where there is no futex
        time.sleep(LOOK)


@cache
def _address_of(function: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value or 0


@cache
def _load() -> None:
    for kernel in (_serving, _leading, _ending):
        load(kernel, "cpu", 1, "the handover between threads")
