"""The metrics of a peer's training, and its end: the same for every library."""

from __future__ import annotations

import json
import time
from collections import deque
from pathlib import Path
from typing import Any

Request = dict[str, Any]
"""
``who``, ``task``, ``algo``, ``num_envs``, ``settings``, ``seed``, ``total_steps``, ``minutes``, ``goal``, ``episodes``
(of the mean return, and of the games at the end), ``folder`` and ``threads``
"""
LINES = 0.2  # seconds between two lines of metrics


class Metrics:
    """Writes lines of metrics; its clock begins when it is made.

    Args:
        request: what is asked for.
    """

    def __init__(self, request: Request):
        self._goal, self._episodes = request["goal"], request["episodes"]
        self._limit = 60 * request["minutes"]
        self._file = (Path(request["folder"]) / "metrics.jsonl").open("w")
        self._returns: deque[float] = deque(maxlen=self._episodes)
        self._began, self._told = time.perf_counter(), 0.0

    def episode(self, value: float) -> None:
        """Counts the return of an episode that has ended."""
        self._returns.append(value)

    def at(self, step: int) -> bool:
        """Writes a line if it is time; returns whether training is over: the goal is reached, or the minutes are.

        Args:
            step: agent steps until now.
        """
        seconds = time.perf_counter() - self._began
        mean = sum(self._returns) / len(self._returns) if self._returns else None
        # as in a run of Headrace, a mean of fewer episodes does not count
        full = mean is not None and len(self._returns) == self._episodes
        over = (full and mean >= self._goal) or seconds >= self._limit
        if over or seconds - self._told >= LINES:
            self._told = seconds
            line = {"step": step, "return": mean if full else None, "time": {"seconds": seconds}}
            print(json.dumps(line), file=self._file, flush=True)
        return over


def write_games(request: Request, mean: float | None) -> None:
    """Writes the mean return of the games without exploration at the end; None where there are none."""
    (Path(request["folder"]) / "greedy.json").write_text(json.dumps(mean) + "\n")
