"""Updates in slices of time, between which a run with workers looks after them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace.train.logging.throughput import Throughput
from headrace.train.runners.parts import Figures
from headrace.train.workers.rate_limiter import REST

SLICE = 0.1
"""seconds of a slice"""


class Pace:
    """Makes updates one after the other, and measures their rate and the time in which none was due.

    Args:
        update: makes an update if one is due; returns whether it did.
        finished: returns whether none will be due any more.
        updates: returns the number of updates so far.
    """

    def __init__(self, update: Callable[[], bool], finished: Callable[[], bool], updates: Callable[[], int]):
        self.update, self._finished, self._updates = update, finished, updates
        self._throughput, self._idle = Throughput(), 0.0

    def begin(self) -> None:
        self._throughput.note(self._updates())

    def run(self, seconds: float = SLICE) -> None:
        """Makes the updates that are due, for ``seconds``."""
        clock = time.perf_counter
        until, now = clock() + seconds, 0.0
        while now < until:
            if self.update():
                now = clock()
            else:
                began = clock()
                if self._finished():
                    break
                time.sleep(REST)
                now = clock()
                self._idle += now - began
        self._throughput.note(self._updates())

    def figures(self, samples: int, **details: Any) -> Figures:
        """Returns the updates, the seconds in them and without any due, and rates of them and of their ``samples``."""
        (rate,) = self._throughput.per_second() or (None,)
        split = {"learning": max(0.0, self._throughput.seconds - self._idle), "idle": self._idle}
        speeds = {"updates": rate, "update_frames": None if rate is None else rate * samples}
        return Figures({"updates": self._updates()}, split, speeds, details)
