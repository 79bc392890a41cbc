"""By how many threads launches are run: a state machine, which is given times here, and once real launches."""

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_counters import Counters

from headrace.pool.executors.kernels import launch_splitter
from headrace.pool.executors.kernels.launch_splitter import AGAIN_NS, HANDOVER_NS, SETTLED_NS, WORTH, ThreadChoice

ROWS = 65_536
SECOND = 1_000_000_000


def numbers(most: int) -> list[int]:
    return [*(2**i for i in range(12) if 2**i < most), most]


def play(choice: ThreadChoice, took: Callable[[int], float], seconds: float, now: int = 0, rows: int = ROWS) -> int:
    """Runs launches that take ``took(threads)`` ns a row, one after the other; returns the time at their end."""
    end = now + int(seconds * SECOND)
    while now < end:
        threads, timed = choice.pick(rows, now)
        ns = int(took(threads) * rows)
        if timed:
            choice.took(ns, rows, now)
        now += ns
    return now


def on_cores(cores: int, row_ns: float = 50.0) -> Callable[[int], float]:
    """Times of a row where so many cores are free, and more threads than these are in each other's way."""
    return lambda threads: row_ns / min(threads, cores) + 0.01 * row_ns * max(0, threads - cores)


@given(most=st.integers(2, 300), times=st.lists(st.floats(20, 100), min_size=10, max_size=10))
def test_threads_are_doubled_as_long_as_that_pays(most: int, times: list[float]):
    took = dict(zip(numbers(most), times, strict=False))
    choice, best = ThreadChoice(most), 1
    play(choice, took.__getitem__, 3.0)
    for more in numbers(most)[1:]:
        if took[more] > WORTH * took[best]:
            break
        best = more
    assert choice.threads == best


@pytest.mark.parametrize("cores", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("most", [2, 3, 16, 64, 100])
def test_few_launches_are_of_trials(most: int, cores: int):
    """Of half a minute, less than a tenth of the time is more than a perfect choice would take."""
    choice, took, steps = ThreadChoice(most), on_cores(cores), 0

    def counted(threads: int) -> float:
        nonlocal steps
        steps += 1
        return took(threads)

    played = play(choice, counted, 30.0)
    best = min(took(threads) for threads in numbers(most))
    assert steps * ROWS * best >= 0.8 * played


def test_threads_are_given_up_where_they_do_not_help_any_longer_and_tried_again():
    choice = ThreadChoice(16)
    now = play(choice, on_cores(16), 2.0)
    assert choice.threads == 16
    now = play(choice, on_cores(2), 20.0, now)
    assert choice.threads == 2
    play(choice, on_cores(16), 60.0, now)
    assert choice.threads == 16


@given(rows=st.integers(1, 10**6), most=st.integers(1, 64), row_ns=st.floats(1, 1e5))
def test_no_thread_has_less_to_do_than_a_handover_takes(rows: int, most: int, row_ns: float):
    choice, picked = ThreadChoice(most), set[int]()

    def took(threads: int) -> float:
        picked.add(threads)
        return row_ns / threads

    now = 0
    for _ in range(200):
        threads, timed = choice.pick(rows, now)
        if timed:
            choice.took(int(took(threads) * rows), rows, now)
        now += 2_000_000
    assert max(picked, default=1) <= max(1, min(most, rows * row_ns / HANDOVER_NS))


def test_small_launches_among_large_ones_have_fewer_threads():
    choice = ThreadChoice(16)
    now = play(choice, on_cores(16), 2.0)
    assert choice.pick(ROWS, now)[0] in (8, 16)
    assert choice.pick(256, now) == (6, False)  # of 50 ns a row
    assert choice.pick(1, now) == (1, False)


def test_a_number_of_threads_is_timed_only_when_these_had_time_to_find_cores():
    choice, now, alone = ThreadChoice(2), 0, 100_000
    while choice.pick(ROWS, now) == (1, True):
        choice.took(alone, ROWS, now)
        now += alone
    begun = now
    while choice.pick(ROWS, now) == (2, True):
        choice.took(2 * alone if now < begun + SETTLED_NS / 2 else alone // 2, ROWS, now)
        now += alone
    assert now >= begun + SETTLED_NS
    assert choice.threads == 2


def test_a_trial_in_vain_is_repeated_later_and_later():
    choice, begun, last = ThreadChoice(8), list[int](), -SECOND
    now = 0
    while now < 20 * SECOND:
        if choice.pick(ROWS, now)[1]:
            choice.took(ROWS, ROWS, now)
            if now - last > AGAIN_NS / 2:
                begun.append(now)
            last = now
        now += 100_000
    pauses = [later - earlier for earlier, later in pairwise(begun)]
    assert choice.threads == 1
    assert len(pauses) >= 4
    assert all(later > 1.5 * earlier for earlier, later in pairwise(pauses))


def test_every_launch_runs_each_row_once_by_whatever_threads(monkeypatch: pytest.MonkeyPatch):
    for name, value in (("SETTLED_NS", 100_000), ("AGAIN_NS", 1_000_000), ("PROBES", 3), ("HANDOVER_NS", 1)):
        monkeypatch.setattr(launch_splitter, name, value)
    counters, rows, launches, seen = Counters(1024), 1024, 0, set[int]()
    splitter = launch_splitter.LaunchSplitter(num_threads=5)
    run = splitter.launch(rows, counters.launch(10, rows))
    monkeypatch.setattr(launch_splitter, "WORTH", float("inf"))
    end = time.monotonic() + 60
    while seen != {1, 2, 4, 5} and time.monotonic() < end:
        run()
        launches += 1
        seen.add(splitter._choice.threads)
    splitter.close()
    assert (counters.values == launches).all()
    assert seen == {1, 2, 4, 5}
