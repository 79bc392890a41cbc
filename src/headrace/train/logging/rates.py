"""The speed of a run with workers."""

from __future__ import annotations

import time
from collections import deque


class Rates:
    """Steps/s and updates/s over the last `WINDOW` seconds.

    Attributes:
        seconds: time between `start` and the last `note`.
    """

    WINDOW = 5.0

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()
        self.seconds = 0.0

    def start(self, step: int, updates: int) -> None:
        """Begin measuring at this step and update."""
        self._began = time.perf_counter()
        self.note(step, updates)

    def note(self, step: int, updates: int) -> None:
        """Record the present numbers of steps and updates."""
        now = time.perf_counter()
        self.seconds = now - self._began
        self._seen.append((now, step, updates))
        while len(self._seen) > 2 and now - self._seen[1][0] > self.WINDOW:
            self._seen.popleft()

    def of_late(self) -> tuple[float | None, float | None]:
        """Returns steps/s and updates/s over the last `WINDOW` seconds; None for both before the second record."""
        if len(self._seen) < 2:
            return None, None
        (then, step, updates), (now, step_now, updates_now) = self._seen[0], self._seen[-1]
        return (step_now - step) / (now - then), (updates_now - updates) / (now - then)
