"""Large launches are shared with helper threads, where that pays.

A helper costs tens of microseconds each time it is called, and how long a row takes only
running it tells. So the first large launches of a pool are timed whole, and the next ones
shared, if that may pay; from then on its size decides whether a launch is split. Rows do not
touch each other's memory, so results are the same either way.
"""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Callable
from functools import partial

from headrace.pool.executors.kernels.helper_threads import HelperThreads
from headrace.pool.executors.kernels.launch import Run

NEVER = 1 << 62
PROBE_ROWS = 512  # launches of fewer rows (or agents) are not worth a look
HANDOVER_NS = 30_000  # what a helper thread costs at least: from release to release, on two busy cores
PROBES = 5
WORTH = 0.9  # of the time alone, that sharing must not exceed


class Sharing:
    """The helper threads of one pool, hired when first needed, and what is known of its launches.

    Args:
        num_threads: how many threads may share a launch, the caller's own included; 1 for no helpers.
        num_agents: of one row; the more, the fewer rows make a large launch.
        first_core: ≥ 0 pins helper i to the core ``first_core + 1 + i`` of those this process may use.
    """

    def __init__(self, num_threads: int, num_agents: int = 1, first_core: int = -1):
        self._num_threads, self._first_core = num_threads, first_core
        self._helpers: HelperThreads | None = None
        self._fewest = max(num_threads, PROBE_ROWS // num_agents)
        self._split_from = self._fewest if num_threads > 1 else NEVER
        self._alone: list[float] = []  # nanoseconds a row
        self._shared: list[float] = []
        _sharings.add(self)

    def launch(self, rows: int, record: Callable[[int, int], Run]) -> Run:
        """A function that runs a launch of so many rows, alone or shared.

        ``record(first, rows)`` prepares the launch of some of them; it is not kept.
        """
        if rows < self._split_from:
            return record(0, rows)
        bounds = [rows * i // self._num_threads for i in range(self._num_threads + 1)]
        parts = [record(first, end - first) for first, end in itertools.pairwise(bounds)]
        if len(self._shared) == PROBES:
            return partial(self._share, parts)
        return partial(self._learn, rows, record(0, rows), parts)

    def close(self) -> None:
        """End the helper threads. Calling it again does nothing."""
        helpers, self._helpers = self._helpers, None
        if helpers is not None:
            helpers.close()

    def _learn(self, rows: int, whole: Run, parts: list[Run]) -> None:
        """Run a launch that was prepared before it was known from which size on sharing pays."""
        if rows < self._split_from:
            whole()
        elif len(self._alone) < PROBES:
            self._alone.append(_timed(whole) / rows)
            if len(self._alone) == PROBES:
                self._split_from = max(self._fewest, int(2 * HANDOVER_NS / min(self._alone)))
        elif len(self._shared) < PROBES:
            self._shared.append(_timed(partial(self._share, parts)) / rows)
            if len(self._shared) == PROBES and min(self._shared) > WORTH * min(self._alone):
                self._split_from = 2 * rows  # helpers wake more slowly here: larger launches only
        else:
            self._share(parts)

    def _share(self, parts: list[Run]) -> None:
        if self._helpers is None:
            self._helpers = HelperThreads(self._num_threads - 1, self._first_core)
        self._helpers.run(parts)


def _timed(run: Run) -> int:
    """Nanoseconds that it took."""
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


_sharings: weakref.WeakSet[Sharing] = weakref.WeakSet()


def _forget_crews() -> None:
    """Threads do not survive a fork: a child that goes on needs helpers of its own."""
    for sharing in list(_sharings):
        sharing._helpers = None


os.register_at_fork(after_in_child=_forget_crews)
