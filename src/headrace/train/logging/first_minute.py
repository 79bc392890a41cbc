"""Whether returns have improved in the first minute of a run; if not, its user should try something else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace.train.logging.episode_tracker import EpisodeTracker

PATIENCE = 60.0
"""seconds of training"""
LEAST = 20
"""episodes at the beginning, and again at the end of that time, that are compared"""
ERRORS = 2.0
"""standard errors of the difference of two means that are an improvement"""


class FirstMinute:
    """Compares the first episodes of a run with its newest ones, once, after `PATIENCE` and enough episodes."""

    def __init__(self) -> None:
        self._first: Sequence[float] = ()
        self._counted = 0  # episodes up to the first ones
        self.over = False

    def look(self, tracker: EpisodeTracker, seconds: float) -> str | None:
        """Returns in words how the mean return compares, once, if it has not improved; otherwise None.

        Args:
            tracker: the episodes of one process.
            seconds: seconds of training so far.
        """
        episodes = 0 if self.over else tracker.episodes
        if not self._first and episodes >= LEAST:
            self._first, self._counted = tracker.last()[0], episodes
        if not self._first or seconds < PATIENCE or episodes < self._counted + LEAST:
            return None
        self.over = True
        newest = tracker.last()[0][self._counted - episodes :]
        (before, error), (now, other) = map(_mean, (self._first, newest))
        if now > before + ERRORS * math.hypot(error, other):
            return None
        return f"episodes return no more after {seconds:.0f} s than at first: {now:.4g}, and {before:.4g} before"


def _mean(values: Sequence[float]) -> tuple[float, float]:
    mean, count = math.fsum(values) / len(values), len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(1, count * (count - 1)))
