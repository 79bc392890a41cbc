"""Mutual exclusion of a pool's calls that is safe against exceptions of signal handlers.

CPython runs signal handlers, and switches threads, only at certain points, such as the end of a function call, and
never between two simple statements without a call. The thread that uses a pool is therefore stored in a plain
attribute: it is tested and set without a call in between, directly before the ``try`` whose ``finally`` clears it. With
`threading.Lock.acquire`, which is a call, an exception raised by a signal handler at its end would leave the lock held
for ever.

A call that an exception interrupts inside the executor is recorded in `Turns._unsure`; the next call cleans up.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from headrace.errors import ClosedError, SequenceError

T = TypeVar("T", bound="Turns")
P = ParamSpec("P")
R = TypeVar("R")
NOBODY = 0  # no thread has this number
MOMENT = 0.0005  # seconds between two tests whether the pool is free


def exclusive(call: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Decorates a pool's method that must not overlap with a call of another thread.

    If a call of another thread runs, the method of an asynchronous pool waits for it, since one thread may send while
    another receives; that of a synchronous pool raises `SequenceError`.
    """

    @functools.wraps(call)
    def alone(self: T, *args: P.args, **kwargs: P.kwargs) -> R:
        me = get_ident()
        self._check_open()
        while self._caller:
            self._wait_for_turn(me)
        self._caller = me
        try:
            self._check_open()
            if self._unsure is not None or (self._torn and not self._receiver):
                self._recover()
            return call(self, *args, **kwargs)
        finally:
            self._caller = NOBODY
            self._end_if_closed()

    return alone


def receiving(call: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Decorates a method of an asynchronous pool that receives results.

    One thread at a time may call it, at the same time as other threads' `exclusive` calls.

    Raises:
        SequenceError: another thread is receiving; raised by the method.
    """

    @functools.wraps(call)
    def alone(self: T, *args: P.args, **kwargs: P.kwargs) -> R:
        me = get_ident()
        self._check_open()
        if self._torn and not self._receiver:
            self._recovered()
        if self._receiver:
            raise SequenceError("another thread is receiving from this pool: let one thread receive for all")
        self._receiver = me
        try:
            self._check_open()
            return call(self, *args, **kwargs)
        finally:
            self._receiver = NOBODY
            self._end_if_closed()

    return alone


class Turns:
    """An object whose methods threads call one at a time, until it is closed.

    Args:
        name: the task's name, for messages.
        is_async: whether a call waits for another thread's call to end, rather than raise.
        wake: a function that makes waiting calls of other threads raise.
        free: a function that frees all resources; called once no call is running.
    """

    def __init__(self, name: str, is_async: bool, wake: Callable[[], object], free: Callable[[], object]):
        self._name, self._waits, self._wake = name, is_async, wake
        self._caller = self._receiver = NOBODY  # the threads whose calls are running
        # the environments of a call that has begun and whose outcome is not recorded yet, and whether a recv is in
        # that state; an exception may leave them so
        self._unsure: np.ndarray | None = None
        self._torn = False
        self._closed: str | None = None
        self._ready = False  # whether the pool is open with nothing in flight, so that a step may skip its checks
        self._free = weakref.finalize(self, free)

    def end(self, reason: str) -> None:
        """Frees threads, processes and memory immediately, after a running call of another thread has ended.

        Args:
            reason: completes "this pool is …" in the `ClosedError` of later calls.
        """
        if self._closed is None:
            self._closed, self._ready = reason, False
            self._wake()
        mine = (NOBODY, get_ident())
        while self._caller not in mine or self._receiver not in mine:
            time.sleep(MOMENT)
        self._end_if_closed()  # in a signal handler that interrupted a call, the end of that call does this

    def disown(self) -> Any:
        """Drops all resources in a forked child; returns objects that must never run or be freed in this process."""
        detached = self._free.detach()
        if self._closed is None:
            self._closed = "of the process that forked this one"
            self._ready = False
            self._caller = self._receiver = NOBODY  # those threads are the parent's
        return detached and detached[1]

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(f"this pool of {self._name} is {self._closed}: make a new one")

    def _end_if_closed(self) -> None:
        """Frees all resources if the pool is closed and no call is running."""
        if self._closed is not None and not self._caller and not self._receiver:
            self._free()

    def _wait_for_turn(self, me: int) -> None:
        """Sleeps for `MOMENT` seconds while another thread's call runs.

        Raises:
            SequenceError: the pool is synchronous, or the running call is this thread's own.
        """
        if self._caller == me:
            raise SequenceError("this pool is inside a call of this same thread: a signal handler cannot use it")
        if not self._waits:
            raise SequenceError("another thread is using this pool: give each thread a pool of its own")
        time.sleep(MOMENT)

    def _recover(self) -> None:
        """Cleans up after a call that an exception interrupted."""
        raise NotImplementedError

    @exclusive
    def _recovered(self) -> None:
        """Runs `_recover` if necessary, as every exclusive call does."""
