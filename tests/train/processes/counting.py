"""A worker that counts until it is told to stop."""

from __future__ import annotations

import time

from headrace.train.processes.counters import Counters


def count(counters: Counters, number: int, restarts: int) -> None:
    while not counters.stopped:
        counters.steps[number] += 1
        time.sleep(0.001)
