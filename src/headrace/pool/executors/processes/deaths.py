"""Worker processes that die, and simulators with a process of their own: replaced for a while, where a program asks.

A pool by itself raises what has happened, or begins new episodes for ever, as the option ``on_failure`` says. A run,
which nobody watches, goes on without a dead process, but ends where they die again and again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST = 3
"""the number of deaths within `SPAN` of which the last is not accepted"""
SPAN = 60.0  # seconds
MARK = "headrace_restarted"
"""the key of info that marks rows of lost episodes within `deaths_accepted`, which no environment has of its own"""


class Deaths:
    """Counts deaths of processes.

    Args:
        most: the number of deaths within `SPAN` seconds of which the last is one too many.
        then: what to do then, for the message.
    """

    def __init__(self, most: int = MOST, then: str = ""):
        self._times, self._then = deque[float](maxlen=most), then

    def one_too_many(self) -> str:
        """Counts a death; returns, if it is one too many, in words which one it is and what to do; "" otherwise."""
        self._times.append(now := time.monotonic())
        most = self._times.maxlen
        if len(self._times) < (most or 0) or now - self._times[0] > SPAN:
            return ""
        return (f"; it is the last of {most} deaths within {SPAN:.0f} s" if most != 1 else "") + self._then


_accepted: ContextVar[tuple[int, str] | None] = ContextVar("accepted", default=None)


@contextmanager
def deaths_accepted(most: int = MOST, then: str = "") -> Iterator[None]:
    """Within this context, pools are made that replace processes that die, unless they are given ``on_failure``.

    The episodes of their environments count as truncated, and a remark tells of each death. One too many raises
    `EnvironmentFailure`.

    Args:
        most, then: as for `Deaths`.
    """
    token = _accepted.set((most, then))
    try:
        yield
    finally:
        _accepted.reset(token)


def accepted_deaths() -> Deaths | None:
    """Returns the count for a new pool; None outside of `deaths_accepted`."""
    found = _accepted.get()
    return None if found is None else Deaths(*found)
