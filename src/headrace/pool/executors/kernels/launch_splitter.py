"""Shares large launches among the threads of a pool, among as many of them as are faster than fewer.

How many that are depends on the time of a row, on the pace of the steps (a helper that slept must first be woken) and
on what else the cores do. So launches are timed: undivided ones, and then those of twice as many threads as long as
that pays. This is tried again later, as helpers may have found no cores of their own; and so is half as many threads,
as their cores may have gone to others. Rows do not share memory, so results are the same in all cases.
"""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections import deque
from statistics import median

from headrace.pool.executors.kernels.helper_threads import HelperThreads
from headrace.pool.executors.kernels.launch import Call, Run

PROBE_ROWS = 512  # launches of fewer rows (or agents) are never shared
HANDOVER_NS = 2_000  # a thread's least share of a launch: time to find it, and for the caller to wait for its end
PROBES = 15  # launches by one number of threads, of whose times the median counts, unless they take longer than:
SETTLED_NS = 30_000_000  # a thread may share the core of the one that woke it for so long
AGAIN_NS = 250_000_000  # from a trial in vain to the next one, at first; then twice as long each time
WORTH = 0.9  # greatest time by twice as many threads, relative to that by as many, at which they are worthwhile


class ThreadChoice:
    """By how many threads launches are run: 1, 2, 4, … or ``most``, by the times of those in trials."""

    def __init__(self, most: int):
        self._numbers = [*(2**i for i in range(most.bit_length()) if 2**i < most), most]
        self._at, self._trial = 0, [0, 1]  # places in it: of the number outside of trials, and of those still to time
        self._row_ns: float | None = None  # of an undivided launch
        self._rows = 0  # of the largest launch in a trial
        self._times: deque[float] = deque(maxlen=PROBES)  # ns per row, at the trial's first place
        self._medians: dict[int, float] = {}  # place → ns per row
        self._begun, self._try_at, self._pause = 0, 0, AGAIN_NS  # ns
        self._usual: dict[int, int] = {}  # rows → threads outside of trials

    @property
    def threads(self) -> int:
        """The number of threads outside of trials."""
        return self._numbers[self._at]

    def most_for(self, rows: int) -> int:
        """Returns the greatest number of threads for a launch of so many rows, as far as is known."""
        most = self._numbers[-1]
        return most if self._row_ns is None else min(most, int(rows * self._row_ns / HANDOVER_NS))

    def pick(self, rows: int, now: int) -> tuple[int, bool]:
        """Returns by how many threads to run a launch that begins ``now`` (ns), and whether `took` is to be called."""
        if now < self._try_at:  # nearly always, so this takes little time
            return self._usual.get(rows) or self._usually(rows), False
        threads, most = self._numbers[self._trial[0]], self.most_for(rows)
        return (threads, True) if most > 1 and threads <= most else (self._usually(rows), False)

    def took(self, ns: int, rows: int, now: int) -> None:
        """Notes the time of a trial's launch, which began ``now``."""
        if not self._times:
            self._begun = now
        self._times.append(ns / rows)
        self._rows = max(self._rows, rows)
        at, settled = self._trial[0], now >= self._begun + SETTLED_NS
        if not settled and (at > self._at or len(self._times) < PROBES):
            return
        self._medians[at] = median(self._times)
        self._times.clear()
        del self._trial[0]
        if at == 0:
            self._row_ns = self._medians[at]
            self._usual.clear()
        if not self._trial:
            self._judge(now)

    def _judge(self, now: int) -> None:
        """Ends a trial; the next one begins at once if twice as many threads were worthwhile."""
        times, at = self._medians, self._at
        self._medians = {}
        if at + 1 in times and times[at + 1] <= WORTH * times[at]:
            self._at = at + 1
            self._medians = {self._at: times[self._at]}
            self._trial = self._timeable(self._at + 1)
        elif at - 1 in times and times[at - 1] <= times[at]:
            self._at, self._pause = at - 1, AGAIN_NS
        self._usual.clear()
        if not self._trial:
            self._medians = {}
            self._trial = self._timeable(self._at, self._at + 1, self._at - 1)  # the first needs no waking
            self._try_at, self._pause = now + self._pause, 2 * self._pause

    def _usually(self, rows: int) -> int:
        threads = self._usual[rows] = max(1, min(self.threads, self.most_for(rows)))
        return threads

    def _timeable(self, *places: int) -> list[int]:
        most = max(self.threads, self.most_for(self._rows))
        return [at for at in places if 0 <= at < len(self._numbers) and self._numbers[at] <= most]


class LaunchSplitter:
    """The helper threads of one pool, started when first needed, and the choice of how many a launch has.

    Args:
        num_threads: number of threads that may share a launch, including the calling thread; 1 for no helpers.
        num_agents: number of agents of one row; with more agents, a launch of fewer rows counts as large.
        first_core: if ≥ 0, helper i is pinned to the core ``first_core + 1 + i`` of those that this process may use.
    """

    def __init__(self, num_threads: int, num_agents: int = 1, first_core: int = -1):
        self._num_threads, self._first_core = num_threads, first_core
        self._fewest = max(2, PROBE_ROWS // num_agents)
        self._choice = ThreadChoice(num_threads)
        self._helpers: HelperThreads | None = None
        _splitters.add(self)

    def launch(self, rows: int, whole: Run) -> Run:
        """Returns a function that runs a launch by one or more threads.

        Args:
            rows: the number of its rows.
            whole: the launch, whose arguments ``first`` and ``share`` say which rows it serves: all.
        """
        if rows < self._fewest or self._choice.most_for(rows) < 2 or not isinstance(whole, Call):
            return whole  # not a `Call`: of debug mode, or of a Warp whose compiled functions are out of reach
        call, hired, shared, clock = whole, None, None, time.perf_counter_ns

        def run() -> None:
            nonlocal hired, shared
            now = clock()
            threads, timed = self._choice.pick(rows, now)
            if threads > 1 and (hired is None or hired is not self._helpers):
                hired = self._helpers = self._helpers or HelperThreads(self._num_threads - 1, self._first_core)
                shared, now = hired.sharing(call, rows), clock()
            if threads == 1 or shared is None:
                call()
            else:
                shared(threads)
            if timed:
                self._choice.took(clock() - now, rows, now)

        return run

    def close(self) -> None:
        """Ends the helper threads. Further calls have no effect."""
        helpers, self._helpers = self._helpers, None
        if helpers is not None:
            helpers.close()


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
