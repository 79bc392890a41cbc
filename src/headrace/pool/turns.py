"""Whose turn it is in a pool, so that an interrupt cannot leave it taken and no two calls can mix.

An exception may come from a signal's handler at the end of any call of a function, and Python passes from one thread
to another there, too. Between two statements without a call nothing comes. So whose turn it is is a plain attribute:
it is looked at and taken without a call in between, right before the ``try`` whose ``finally`` gives it back.
`threading.Lock.acquire` is a call: an interrupt at its end would leave the lock held for ever.

A turn that ends within an executor's call leaves a mark of its own, `Turns._unsure`: the next call makes it good.
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
MOMENT = 0.0005  # seconds between looks at whether it is one's turn


def exclusive(call: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """A pool's method that no other thread's call may overlap.

    In an asynchronous pool it waits for its turn, since one thread may send while another receives; in a synchronous
    one the second thread is told.
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
    """A method of an asynchronous pool that takes results: one thread at a time, beside the `exclusive` calls."""

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
    """What threads call in turn, until it is closed.

    Args:
        name: of the task, for messages.
        is_async: whether one thread may wait for another's turn to end.
        wake: ends other threads' waiting.
        free: frees everything, when nobody is inside any more.
    """

    def __init__(self, name: str, is_async: bool, wake: Callable[[], object], free: Callable[[], object]):
        self._name, self._waits, self._wake = name, is_async, wake
        self._caller = self._receiver = NOBODY  # the threads inside
        # with whom a call has begun that is not yet in the books, and whether a recv has: an exception may end it there
        self._unsure: np.ndarray | None = None
        self._torn = False
        self._closed: str | None = None
        self._ready = False  # open, and nothing to wait for: a step need look at nothing else
        self._free = weakref.finalize(self, free)

    def end(self, reason: str) -> None:
        """Free threads, processes and memory now, for this reason. Another thread's call ends first."""
        if self._closed is None:
            self._closed, self._ready = reason, False
            self._wake()
        mine = (NOBODY, get_ident())
        while self._caller not in mine or self._receiver not in mine:
            time.sleep(MOMENT)
        self._end_if_closed()  # a signal's handler in the midst of a call leaves it to that call's end

    def disown(self) -> Any:
        """Leave everything to the process that forked this one; answers what must never be run or freed here."""
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
        """Free everything, when the pool is closed and nobody is inside any more."""
        if self._closed is not None and not self._caller and not self._receiver:
            self._free()

    def _wait_for_turn(self, me: int) -> None:
        """Let the thread whose turn it is go on for a moment.

        Raises:
            SequenceError: the pool is synchronous, or the turn is this thread's own.
        """
        if self._caller == me:
            raise SequenceError(
                "this pool is in the midst of a call of this very thread: a signal handler cannot use it"
            )
        if not self._waits:
            raise SequenceError("another thread is using this pool: give each thread a pool of its own")
        time.sleep(MOMENT)

    def _recover(self) -> None:
        """Make good a call that an exception has ended in its midst."""
        raise NotImplementedError

    @exclusive
    def _recovered(self) -> None:
        """Every exclusive call begins with `_recover` where there is need."""
