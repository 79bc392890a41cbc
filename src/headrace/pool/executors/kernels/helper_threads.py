"""Helper threads that share one large launch with the calling thread.

A step of a thousand environments takes 20 to 200 µs, less than Python needs to hand work from thread to thread. So the
handover is compiled: a helper looks at its mailbox until it has found nothing for some 100 µs, and only then waits in
Python for a lock. The caller posts a part to each helper, runs its own, and then those that no helper has taken, so
that it never waits for a thread that sleeps.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.executors.kernels.launch import Call, Movable, Run, load, record

LOOKS = 400  # times that a helper looks at its mailbox, giving its core away in between, before it sleeps

WORDS = 16  # of a mailbox, which the header describes


@wp.func_native(cpp(__file__, "serve"))
def _serve(mailbox: wp.uint64, looks: int, sched_yield_address: wp.uint64) -> None: ...


@wp.func_native(cpp(__file__, "lead"))
def _lead(
    mailboxes: wp.uint64, sleepers: wp.uint64, parts: wp.uint64, count: int, sched_yield_address: wp.uint64
) -> None: ...


@wp.kernel(enable_backward=False, module="unique")
def _serving(mailbox: wp.uint64, looks: int, sched_yield_address: wp.uint64) -> None:
    _serve(mailbox, looks, sched_yield_address)


@wp.kernel(enable_backward=False, module="unique")
def _leading(
    mailboxes: wp.uint64, sleepers: wp.uint64, parts: wp.uint64, count: int, sched_yield_address: wp.uint64
) -> None:
    _lead(mailboxes, sleepers, parts, count, sched_yield_address)


class HelperThreads:
    """Threads that wait for parts of launches; `close` ends them.

    Args:
        helpers: number of threads.
        first_core: if ≥ 0, helper i is pinned to the core ``first_core + 1 + i`` of those that this process may use.

    Raises:
        OptionError: the system refuses to start a thread; those already started have been ended.
    """

    def __init__(self, helpers: int, first_core: int = -1):
        _load()
        self._mailboxes = np.zeros(WORDS * helpers + 1 + WORDS, np.uint64)
        start = -(self._mailboxes.ctypes.data // 8) % WORDS  # so that mailboxes share no cache line
        self._first = self._mailboxes[start:]
        self._sleepers = self._first[WORDS * helpers :]
        self._helpers: list[_Helper] = []
        self._leads: dict[int, Movable] = {}
        try:
            for i in range(helpers):
                core = first_core + 1 + i if first_core >= 0 else None
                self._helpers.append(_Helper(_address(self._first) + 8 * WORDS * i, core))
        except BaseException as error:
            started = len(self._helpers)
            self.close()
            if not isinstance(error, RuntimeError | MemoryError):
                raise
            what = f"num_threads: the system started {started} of {helpers} threads: {error}; ask for fewer"
            raise OptionError(what) from error

    def sharing(self, parts: Sequence[Call]) -> Run:
        """Returns a function that runs all parts, at most one more than there are helpers, and then returns.

        No Python code runs in between, so that an exception of a signal handler leaves no part undone.
        """
        words = (ctypes.c_uint64 * (3 * len(parts)))(*(word for part in parts for word in part.addresses))
        sleepers, wake = self._sleepers, self._wake
        lead = self._lead(len(parts)).over([ctypes.addressof(words)])

        def run(kept: object = (parts, words, self._mailboxes)) -> None:
            if sleepers[0]:
                wake()
            lead()

        return run

    def _lead(self, count: int) -> Movable:
        """Returns the caller's part in a launch of so many parts, for any address of their list."""
        if count not in self._leads:
            call = _run(_leading, [_address(self._first), _address(self._sleepers), 0, count])
            assert isinstance(call, Call)  # as the parts are
            self._leads[count] = Movable(call, [("parts", "", 0)])
        return self._leads[count]

    def close(self) -> None:
        """Ends the threads. Further calls have no effect."""
        for helper in self._helpers:
            helper.end()
        self._helpers = []

    def _wake(self) -> None:
        for helper in self._helpers:
            helper.wake()


class _Helper:
    """One thread, which sleeps by waiting for a lock."""

    def __init__(self, mailbox: int, core: int | None):
        self._core, self._ending = core, False
        self._serve = _run(_serving, [mailbox, LOOKS])
        self._asleep = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="headrace-kernels", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        with suppress(RuntimeError):  # it is awake, and will look once more before it sleeps
            self._asleep.release()

    def end(self) -> None:
        self._ending = True
        self.wake()
        self._thread.join()

    def _loop(self) -> None:
        if self._core is not None:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[self._core % len(cores)]})
        while not self._ending:
            self._serve()
            self._asleep.acquire()


def _run(kernel: Any, arguments: list[int]) -> Run:
    return record(kernel, 1, [*arguments, _sched_yield()], "cpu", 1)


def _address(array: np.ndarray) -> int:
    return array.ctypes.data


@cache
def _sched_yield() -> int:
    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0


@cache
def _load() -> None:
    for kernel in (_serving, _leading):
        load(kernel, "cpu", 1, "the handover between threads")
