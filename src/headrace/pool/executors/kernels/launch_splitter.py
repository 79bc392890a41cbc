"""Splits large launches among helper threads if that is faster.

Whether that is so depends on the time of a row and on the pace of the steps: a helper that slept must first be woken.
Large launches are therefore run undivided and timed, and then split and timed if that may be faster. Where it is, large
launches stay split; where not, it is tried again later, as the helper may only have found no core of its own. Rows do
not share memory, so results are the same in both cases.
"""

from __future__ import annotations

import atexit
import itertools
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from statistics import median

from headrace.pool.executors.kernels.helper_threads import HelperThreads
from headrace.pool.executors.kernels.launch import Call, Run

NEVER = 1 << 62
PROBE_ROWS = 512  # launches of fewer rows (or agents) are never split
HANDOVER_NS = 2_000  # time to hand work to a helper that looks for it, and to wait for its end
PROBES = 15  # launches of either kind, of whose times the median counts
SETTLED_NS = 30_000_000  # a thread may share the core of the one that woke it for so long
AGAIN_NS = 250_000_000  # from a trial in vain to the next one, at first; then twice as long each time
WORTH = 0.9  # greatest time of a split launch, relative to an undivided one, at which launches stay split


class LaunchSplitter:
    """The helper threads of one pool, started when first needed, and the measured times of its launches.

    Args:
        num_threads: number of threads that may share a launch, including the calling thread; 1 for no helpers.
        num_agents: number of agents of one row; with more agents, a launch of fewer rows counts as large.
        first_core: if ≥ 0, helper i is pinned to the core ``first_core + 1 + i`` of those that this process may use.
    """

    def __init__(self, num_threads: int, num_agents: int = 1, first_core: int = -1):
        self._num_threads, self._first_core = num_threads, first_core
        self._helpers: HelperThreads | None = None
        self._fewest = max(num_threads, PROBE_ROWS // num_agents)
        self._split_from = self._fewest if num_threads > 1 else NEVER
        self._worthwhile = False
        self._alone: deque[float] = deque(maxlen=PROBES)  # ns per row
        self._shared: deque[float] = deque(maxlen=PROBES)
        self._try_at, self._settled_at, self._pause = 0, 0, AGAIN_NS  # ns
        _splitters.add(self)

    def may_split(self, rows: int) -> bool:
        """Returns whether a launch of so many rows is large enough to be split."""
        return rows >= self._split_from

    def launch(self, rows: int, record: Callable[[int, int], Run]) -> Run:
        """Returns a function that runs a launch of ``rows`` rows, undivided or split.

        Args:
            rows: number of rows.
            record: a function (first, rows) → the launch of these rows; it is called before this method returns.
        """
        if not self.may_split(rows):
            return record(0, rows)
        bounds = [rows * i // self._num_threads for i in range(self._num_threads + 1)]
        parts = [record(first, end - first) for first, end in itertools.pairwise(bounds)]
        calls = [part for part in parts if isinstance(part, Call)]
        if len(calls) < len(parts):  # of debug mode, or of a Warp whose compiled functions are out of reach
            return record(0, rows)
        shared = self._sharing(calls)
        return shared if self._worthwhile else partial(self._try, rows, record(0, rows), shared)

    def close(self) -> None:
        """Ends the helper threads. Further calls have no effect."""
        helpers, self._helpers = self._helpers, None
        if helpers is not None:
            helpers.close()

    def _try(self, rows: int, whole: Run, shared: Run) -> None:
        """Runs a launch that was prepared before splitting was known to be worthwhile; times it during a trial."""
        now = time.perf_counter_ns()
        if self._worthwhile and rows >= self._split_from:
            shared()
        elif rows < self._split_from or now < self._try_at:
            whole()
        elif len(self._alone) < PROBES:
            self._alone.append(_timed(whole) / rows)
            if len(self._alone) == PROBES:
                self._split_from = max(self._fewest, int(2 * HANDOVER_NS / median(self._alone)))
                self._settled_at = now + SETTLED_NS
        else:
            self._shared.append(_timed(shared) / rows)
            if len(self._shared) == PROBES and now >= self._settled_at:
                self._judge(now)

    def _judge(self, now: int) -> None:
        """Ends a trial."""
        self._worthwhile = median(self._shared) <= WORTH * median(self._alone)
        self._alone.clear()
        self._shared.clear()
        if not self._worthwhile:
            self._try_at, self._pause = now + self._pause, 2 * self._pause

    def _sharing(self, parts: list[Call]) -> Run:
        """Returns a function that runs the parts on this pool's helper threads, which it hires if there are none."""
        hired, run = None, None

        def share() -> None:
            nonlocal hired, run
            if self._helpers is None:
                self._helpers = HelperThreads(self._num_threads - 1, self._first_core)
            if run is None or hired is not self._helpers:
                hired, run = self._helpers, self._helpers.sharing(parts)
            run()

        return share


def _timed(run: Run) -> int:
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


_splitters: weakref.WeakSet[LaunchSplitter] = weakref.WeakSet()


def _forget_helpers() -> None:
    """Drops the helpers in a forked child, since threads do not survive a fork."""
    for splitter in list(_splitters):
        splitter._helpers = None


os.register_at_fork(after_in_child=_forget_helpers)


@atexit.register
def _end_helpers() -> None:
    """Ends the helpers of pools that nobody closed, before Warp frees the code that they run."""
    for splitter in list(_splitters):
        splitter.close()
