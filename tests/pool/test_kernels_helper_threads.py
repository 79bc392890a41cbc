import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.kernels import launch_splitter
from headrace.pool.executors.kernels.helper_threads import LOOKS, HelperThreads
from headrace.pool.executors.kernels.launch import Call, load, record


@wp.kernel(enable_backward=False, module="unique")
def count_up(turns: int, number: int, counts: wp.array(dtype=wp.int64)):  # type: ignore[valid-type]
    """Adds one to a number of the array after so many turns, some nanoseconds each."""
    turn = int(0)
    x = float(1.0)
    while turn < turns:
        turn += 1
        x = x * 0.5 + 1.0  # which no compiler can leave out
    counts[number] = counts[number] + wp.where(x > 0.0, wp.int64(1), wp.int64(2))


class Counters:
    """Numbers that parts of a launch count up, far enough apart for threads of their own."""

    def __init__(self, parts: int):
        self._memory = np.zeros((parts, 16), np.int64)
        self._view = wp.array(self._memory.reshape(-1), dtype=wp.int64, device="cpu", copy=False)
        load(count_up, "cpu", 1, "a test")

    def part(self, number: int, turns: int) -> Call:
        call = record(count_up, 1, [turns, number * 16, self._view], "cpu", 1)
        assert isinstance(call, Call)
        return call

    @property
    def values(self) -> list[int]:
        return self._memory[:, 0].tolist()


@pytest.mark.parametrize("helpers", [1, 3, 7])
def test_each_part_of_a_launch_runs_once_at_any_pace(helpers: int):
    """Covers helpers that poll, sleep or are just falling asleep: pauses range to far longer than LOOKS polls."""
    parts, rng, expected = helpers + 1, np.random.default_rng(0), np.zeros(helpers + 1, int)
    counters, threads = Counters(parts), HelperThreads(helpers)
    for _ in range(30):
        count = int(rng.integers(1, parts + 1))
        run = threads.sharing([counters.part(i, int(rng.integers(1, 20_000))) for i in range(count)])
        for _ in range(20):
            run()
            expected[:count] += 1
            assert counters.values == expected.tolist()
            time.sleep(rng.choice([0, 0, 0, 1e-5, 1e-4, 1e-3]))
    threads.close()
    threads.close()


def test_parts_run_at_the_same_time():
    """Two parts of about 10 ms: without a helper, the caller would use all CPU time. Repeated, as cores may be busy."""
    counters, threads, runs = Counters(2), HelperThreads(1), 0
    run = threads.sharing([counters.part(i, 5_000_000) for i in range(2)])
    shared, end = False, time.monotonic() + 60
    while not shared and time.monotonic() < end:
        all_before, mine_before = time.process_time_ns(), time.thread_time_ns()
        run()
        runs += 1
        shared = time.thread_time_ns() - mine_before < 0.8 * (time.process_time_ns() - all_before)
    threads.close()
    assert shared
    assert counters.values == [runs, runs]


def test_the_caller_runs_all_parts_when_no_helper_runs(monkeypatch: pytest.MonkeyPatch):
    """For example in a child after a fork, which has the prepared launches, but no threads."""
    counters, threads = Counters(4), HelperThreads(3)
    run = threads.sharing([counters.part(i, 100) for i in range(4)])
    run()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        for _ in range(10):
            run()
        os._exit(0 if counters.values == [11] * 4 else 1)
    assert os.waitpid(child, 0)[1] == 0
    threads.close()
    for _ in range(10):  # after close, too
        run()
    assert counters.values == [11] * 4


@pytest.mark.parametrize("raises", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_from_a_signal_handler_leaves_no_part_undone(raises: type[BaseException]):
    counters, threads, inside, interrupted = Counters(2), HelperThreads(1), False, 0
    run = threads.sharing([counters.part(i, 200_000) for i in range(2)])

    def interrupt(*_: object) -> None:
        nonlocal inside
        if inside:
            inside = False  # once in each run, so that the except block is not interrupted
            raise raises

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    try:
        while interrupted < 50:
            try:
                inside = True
                run()
                inside = False
            except raises:
                interrupted += 1
            mine, helpers = counters.values
            assert mine == helpers
    finally:
        inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    threads.close()


def test_helpers_sleep_when_there_is_nothing_to_do():
    counters, threads = Counters(3), HelperThreads(2)
    threads.sharing([counters.part(i, 10) for i in range(3)])()
    time.sleep(LOOKS * 1e-4)
    before = time.process_time_ns()
    time.sleep(0.2)
    assert time.process_time_ns() - before < 0.1e9  # two helpers that poll would use 0.4 s
    threads.close()


def test_a_thread_that_the_system_refuses_is_an_error_and_ends_the_others(monkeypatch: pytest.MonkeyPatch):
    start, before = threading.Thread.start, threading.active_count()

    def refused(thread: Any) -> None:
        if thread.name == "headrace-kernels" and threading.active_count() == before + 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(OptionError, match="num_threads: the system started 2 of 3 threads"):
        HelperThreads(3)
    assert threading.active_count() == before


def test_a_split_that_was_not_worthwhile_is_tried_again_later(monkeypatch: pytest.MonkeyPatch):
    """Every launch runs each part once: undivided, split on trial, and split for good."""
    for name, value in (("WORTH", 0.0), ("SETTLED_NS", 0), ("AGAIN_NS", 50_000_000)):
        monkeypatch.setattr(launch_splitter, name, value)
    counters, rows, launches = Counters(2), 1024, 0
    splitter = launch_splitter.LaunchSplitter(num_threads=2)
    run = splitter.launch(rows, lambda first, count: counters.part(first * 2 // rows, 100 * count))

    def launch_for(seconds: float) -> set[int]:
        nonlocal launches
        end, helped = time.monotonic() + seconds, set()
        while time.monotonic() < end:
            before = counters.values[1]
            run()
            launches += 1
            helped.add(counters.values[1] - before)  # the second half's part runs in split launches only
        return helped

    assert launch_for(0.1) == {0, 1}
    monkeypatch.setattr(launch_splitter, "WORTH", float("inf"))
    launch_for(1.0)
    assert launch_for(0.05) == {1}
    splitter.close()
    assert counters.values[0] == launches
