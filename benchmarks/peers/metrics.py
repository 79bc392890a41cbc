"""The metrics of a peer's training, and its end: the same for every library."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

from headrace.train.runs import files
from headrace.train.runs.files import replace

Request = dict[str, Any]
"""
``who``, ``task``, ``algo``, ``num_envs``, ``settings``, ``seed``, ``total_steps``, ``minutes``, ``goal``, ``episodes``
(of the mean return, and of the games at the end), ``folder`` and ``threads``
"""
LINES = 0.2  # seconds between two lines of metrics


class Metrics:
    """Writes lines of metrics; its clock begins when it is made."""

    def __init__(self, request: Request):
        self._goal, self._episodes = request["goal"], request["episodes"]
        self._limit = 60 * request["minutes"]
        self._file = os.fdopen(files.opened(Path(request["folder"]) / "metrics.jsonl", files.RENEW), "w")
        self._returns: deque[float] = deque(maxlen=self._episodes)
        self._last: dict[str, Any] | None = None
        self._began, self._told = time.perf_counter(), 0.0

    def episode(self, value: float) -> None:
        self._returns.append(value)

    def at(self, step: int) -> bool:
        """Writes a line if it is time; returns whether training is over: the goal is reached, or the time."""
        seconds = time.perf_counter() - self._began
        # as in a run of Headrace, a mean of fewer episodes does not count
        full = len(self._returns) == self._episodes
        mean = sum(self._returns) / self._episodes if full else None
        self._last = {"step": step, "return": mean, "time": {"seconds": seconds}}
        over = (mean is not None and mean >= self._goal) or seconds >= self._limit
        if seconds - self._told >= LINES:
            self._told = seconds
            self._write()
        return over

    def close(self) -> None:
        """Writes the last line if there is none of that step yet, and closes the file."""
        if self._last is not None:
            self._write()
        self._file.close()

    def _write(self) -> None:
        print(json.dumps(self._last), file=self._file, flush=True)
        self._last = None


def write_games(request: Request, mean: float | None) -> None:
    """Writes the mean return of the games without exploration at the end; None where there are none."""
    replace(Path(request["folder"]) / "greedy.json", json.dumps(mean) + "\n")
