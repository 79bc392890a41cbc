"""How fast the counts of a run grow: steps, updates and the like a second."""

from __future__ import annotations

import time
from collections import deque


class Throughput:
    """Growth a second of some counts, over the recent past.

    Args:
        window: seconds that are looked back on.

    Attributes:
        seconds: time from the first `note` to the last.
    """

    def __init__(self, window: float = 5.0) -> None:
        self._window, self._began, self.seconds = window, 0.0, 0.0
        self._seen: deque[tuple[float, tuple[int, ...]]] = deque()

    def note(self, *counts: int) -> None:
        """Records the counts as they are now."""
        now = time.monotonic()
        self._began = self._began or now
        self.seconds = now - self._began
        self._seen.append((now, counts))
        while len(self._seen) > 2 and now - self._seen[1][0] > self._window:
            self._seen.popleft()

    def per_second(self, least: float = 0.0) -> tuple[float, ...] | None:
        """Returns the growth of each count a second; None unless more than ``least`` seconds were seen."""
        if not self._seen:
            return None
        (then, before), (now, after) = self._seen[0], self._seen[-1]
        if now - then <= least:
            return None
        return tuple((new - old) / (now - then) for old, new in zip(before, after, strict=True))
