"""Launches whose rows are shared by the calling thread and helpers."""

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from kernel_counters import Counters

from headrace.errors import OptionError
from headrace.pool.executors.kernels.helper_threads import LOOKS, HelperThreads

_others = set[threading.Thread]()


@pytest.fixture(autouse=True)
def others():
    """Threads of pools that other tests have left are not counted."""
    _others.update(threading.enumerate())
    yield
    _others.clear()


def helpers() -> int:
    return sum(thread.name == "headrace-kernels" and thread not in _others for thread in threading.enumerate())


@pytest.mark.parametrize("most", [1, 3, 7])
def test_each_row_of_a_launch_runs_once_at_any_pace(most: int):
    """Covers helpers that poll, sleep or are just falling asleep: pauses range to far longer than LOOKS polls."""
    rng, expected = np.random.default_rng(0), np.zeros(300, int)
    counters, threads = Counters(300), HelperThreads(most)
    for _ in range(30):
        rows = int(rng.integers(1, 301))
        run = threads.sharing(counters.launch(int(rng.integers(1, 100)), rows), rows)
        for _ in range(20):
            run(int(rng.integers(1, most + 2)))
            expected[:rows] += 1
            np.testing.assert_array_equal(counters.values, expected)
            time.sleep(rng.choice([0, 0, 0, 1e-5, 1e-4, 1e-3]))
    threads.close()
    threads.close()


def test_rows_run_at_the_same_time():
    """Rows of about 1 ms: without a helper, the caller would use all CPU time. Repeated, as cores may be busy."""
    counters, threads, runs = Counters(20), HelperThreads(1), 0
    run = threads.sharing(counters.launch(500_000, 20), 20)
    shared, end = False, time.monotonic() + 60
    while not shared and time.monotonic() < end:
        all_before, mine_before = time.process_time_ns(), time.thread_time_ns()
        run(2)
        runs += 1
        shared = time.thread_time_ns() - mine_before < 0.8 * (time.process_time_ns() - all_before)
    threads.close()
    assert shared
    assert (counters.values == runs).all()


def test_helpers_are_started_when_a_launch_needs_them():
    counters, threads = Counters(100), HelperThreads(5)
    run, started = threads.sharing(counters.launch(10, 100), 100), []
    for number in (1, 2, 4, 2, 6):
        run(number)
        started.append(helpers())
    assert started == [0, 1, 3, 3, 5]
    threads.close()
    assert helpers() == 0


def test_a_sleeping_helper_is_woken_by_the_launch_itself():
    """A launch after a pause has its helper's part in it. Repeated, as cores may be busy."""
    counters, threads = Counters(100), HelperThreads(1)
    run, shared, end = threads.sharing(counters.launch(100_000, 100), 100), False, time.monotonic() + 60
    while not shared and time.monotonic() < end:
        run(2)
        time.sleep(LOOKS * 1e-5)
        all_before, mine_before = time.process_time_ns(), time.thread_time_ns()
        run(2)
        shared = time.thread_time_ns() - mine_before < 0.8 * (time.process_time_ns() - all_before)
    threads.close()
    assert shared


def test_a_launch_with_more_arguments_than_threads_can_copy_is_not_shared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.pool.executors.kernels.helper_threads.MOST_BYTES", 8)
    counters, threads = Counters(10), HelperThreads(3)
    threads.sharing(counters.launch(10, 10), 10)(4)
    assert helpers() == 0
    assert (counters.values == 1).all()
    threads.close()


def test_the_caller_runs_all_rows_when_no_helper_runs():
    """For example in a child after a fork, which has the prepared launches, but no threads."""
    counters, threads = Counters(40), HelperThreads(3)
    run = threads.sharing(counters.launch(100, 40), 40)
    run(4)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        for _ in range(10):
            run(4)
        os._exit(0 if (counters.values == 11).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    threads.close()
    for _ in range(10):  # after close, too
        run(4)
    assert (counters.values == 11).all()


@pytest.mark.parametrize("raises", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_from_a_signal_handler_leaves_no_row_undone(raises: type[BaseException]):
    counters, threads, inside, interrupted = Counters(40), HelperThreads(1), False, 0
    run = threads.sharing(counters.launch(10_000, 40), 40)

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
                run(2)
                inside = False
            except raises:
                interrupted += 1
            assert (counters.values == counters.values[0]).all()
    finally:
        inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    threads.close()


def test_helpers_sleep_when_there_is_nothing_to_do():
    counters, threads = Counters(300), HelperThreads(2)
    threads.sharing(counters.launch(10, 300), 300)(3)
    time.sleep(LOOKS * 1e-4)
    before = time.process_time_ns()
    time.sleep(0.2)
    assert time.process_time_ns() - before < 0.1e9  # two helpers that poll would use 0.4 s
    threads.close()


def test_a_thread_that_the_system_refuses_is_an_error_and_ends_the_others(monkeypatch: pytest.MonkeyPatch):
    start = threading.Thread.start

    def refused(thread: Any) -> None:
        if thread.name == "headrace-kernels" and helpers() == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    run = HelperThreads(3).sharing(Counters(10).launch(10, 10), 10)
    with pytest.raises(OptionError, match="num_threads: the system started 2 of 3 threads"):
        run(4)
    assert helpers() == 0
