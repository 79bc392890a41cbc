"""Measures the times of the parts of an iteration, on a CPU or a GPU, and rates over the recent past.

A GPU executes asynchronously: there, CUDA events record when each part ends, and nothing waits for them.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Timer:
    """A clock that accumulates seconds by part."""

    def __init__(self, device: torch.device, *names: str):
        self._device = device
        self._seconds = dict.fromkeys(names, 0.0)
        self._last: Any = None
        self._pending: deque[tuple[str, Any, Any]] = deque()  # CUDA events around a part

    def start(self) -> None:
        self._last = self._now()

    def lap(self, name: str) -> None:
        """Ends the part ``name``, and begins the next one."""
        now = self._now()
        if self._device.type == "cuda":
            self._pending.append((name, self._last, now))
            self._settle()
        else:
            self._seconds[name] += now - self._last
        self._last = now

    def seconds(self) -> dict[str, float]:
        """Returns the total seconds of each part, over all that have ended."""
        self._settle()
        return dict(self._seconds)

    def _now(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _settle(self) -> None:
        while self._pending and self._pending[0][2].query():
            name, began, ended = self._pending.popleft()
            self._seconds[name] += began.elapsed_time(ended) / 1000


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
