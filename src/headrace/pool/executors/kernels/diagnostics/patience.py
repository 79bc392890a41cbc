"""How long interpreted code may go on.

A ``while`` that never ends is an error, whoever runs it. Code that is only tried out (`tried_out`) is moreover
stopped when its time is up, and what it prints is nobody's business.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

MOST_ROUNDS = 100_000  # of one while loop; interpreted, they take seconds
MANY_ROUNDS = 1_000  # a while loop that has gone on for so long may be endless, and gets the time to show it
TIME_TO_SHOW = 20.0  # seconds


class EndlessLoopError(RuntimeError):
    """A ``while`` loop that has gone round so often that it will hardly end."""


class OutOfTime(BaseException):
    """The time for trying something out is over."""


class _Trial:
    """Until when something is tried out."""

    def __init__(self, seconds: float):
        self._until = time.perf_counter() + seconds
        self._extended = False

    def check(self) -> None:
        if time.perf_counter() > self._until:
            raise OutOfTime

    def extend(self) -> None:
        """Once, for a loop that may be endless."""
        if not self._extended:
            self._until, self._extended = self._until + TIME_TO_SHOW, True

    def each(self, rounds: Iterable[Any]) -> Iterator[Any]:
        for one in rounds:
            self.check()
            yield one


_TRIAL: ContextVar[_Trial | None] = ContextVar("trial", default=None)


@contextlib.contextmanager
def tried_out(seconds: float) -> Iterator[None]:
    """Stop interpreted loops with `OutOfTime` after so many seconds, and let nothing be printed."""
    token = _TRIAL.set(_Trial(seconds))
    try:
        yield
    finally:
        _TRIAL.reset(token)


# -- what translated functions call --------------------------------------------------------------


class Rounds:
    """Counts the rounds of one ``while``: it is called before each, and answers True."""

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
    """What a ``for`` goes through."""
    trial = _TRIAL.get()
    return rounds if trial is None else trial.each(rounds)


def say(*values: Any, **how: Any) -> None:
    """As `print`."""
    if _TRIAL.get() is None:
        print(*values, **how)
