"""Rates of a run's counts, such as steps and updates per second, over the recent past."""

from __future__ import annotations

import time
from collections import deque


class Throughput:
    """The increase of some counts per second, over the recent past.

    Args:
        window: length of the recent past in seconds.

    Attributes:
        seconds: time from the first `note` to the last.
    """

    def __init__(self, window: float = 5.0) -> None:
        self._window, self._began, self.seconds = window, 0.0, 0.0
        self._seen: deque[tuple[float, tuple[int, ...]]] = deque()

    def note(self, *counts: int) -> None:
        """Records the present counts."""
        now = time.monotonic()
        self._began = self._began or now
        self.seconds = now - self._began
        self._seen.append((now, counts))
        while len(self._seen) > 2 and now - self._seen[1][0] > self._window:
            self._seen.popleft()

    def per_second(self, least: float = 0.0) -> tuple[float, ...] | None:
        """Returns the increase of each count per second; None unless more than ``least`` seconds were recorded."""
        if not self._seen:
            return None
        (then, before), (now, after) = self._seen[0], self._seen[-1]
        if now - then <= least:
            return None
        return tuple((new - old) / (now - then) for old, new in zip(before, after, strict=True))
