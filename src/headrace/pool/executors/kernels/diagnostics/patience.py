"""Limits the running time of interpreted code.

A ``while`` loop with too many iterations always raises. Code that runs as a trial (`tried_out`) is also stopped after
a time limit, and prints nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

MOST_ROUNDS = 100_000  # iterations of one while loop, which take seconds when interpreted
MANY_ROUNDS = 1_000  # iterations after which a while loop may be endless, so that a trial's time limit is extended
TIME_TO_SHOW = 20.0  # seconds by which it is extended


class EndlessLoopError(RuntimeError):
    """A ``while`` loop has run more than `MOST_ROUNDS` iterations."""


class TrialTimeout(BaseException):
    """The time limit of a trial has passed."""


class _Trial:
    """The time limit of a trial."""

    def __init__(self, seconds: float):
        self._until = time.perf_counter() + seconds
        self._extended = False

    def check(self) -> None:
        if time.perf_counter() > self._until:
            raise TrialTimeout

    def extend(self) -> None:
        """Extends the limit, once, for a loop that may be endless."""
        if not self._extended:
            self._until, self._extended = self._until + TIME_TO_SHOW, True

    def each(self, rounds: Iterable[Any]) -> Iterator[Any]:
        for one in rounds:
            self.check()
            yield one


_TRIAL: ContextVar[_Trial | None] = ContextVar("trial", default=None)


@contextlib.contextmanager
def tried_out(seconds: float) -> Iterator[None]:
    """Returns a context in which interpreted loops raise `TrialTimeout` after ``seconds`` seconds and print nothing."""
    token = _TRIAL.set(_Trial(seconds))
    try:
        yield
    finally:
        _TRIAL.reset(token)


# -- called by translated functions --------------------------------------------------------------


class LoopCounter:
    """The count of one ``while`` loop's iterations: called before each, returns True or raises `EndlessLoopError`."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def __call__(self) -> bool:
        self._done += 1
        if self._done > MOST_ROUNDS:
            cure = "where it may take so long, say how long with `for i in range(…)` and `break`"
            raise EndlessLoopError(f"this loop has gone round {MOST_ROUNDS:,} times without an end: {cure}")
        if self._done % MANY_ROUNDS == 0 and (trial := _TRIAL.get()) is not None:
            trial.extend()
            trial.check()
        return True


def in_time(rounds: Iterable[Any]) -> Iterable[Any]:
    """Returns the iterable of a ``for``, with the time limit checked at each iteration of a trial."""
    trial = _TRIAL.get()
    return rounds if trial is None else trial.each(rounds)


def say(*values: Any, **how: Any) -> None:
    """Prints like `print`, except in a trial."""
    if _TRIAL.get() is None:
        print(*values, **how)
