"""Exceptions that signal handlers raise at random moments, thousands of them, and threads that meet in one pool.

No lock stays held, no result is returned for another, and nothing is stepped twice: the next call returns the
result of the interrupted one, or raises an error that asks for a reset.
"""

from __future__ import annotations

import itertools
import pickle
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import headrace
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.errors import ClosedError, SequenceError
from headrace.pool.executors.kernels import launch

N = 6
ALARMS = 200


class Alarm(BaseException):
    """Raised by the handler; like `KeyboardInterrupt`, no subclass of `Exception`."""


@pytest.fixture(params=["threads", "kernels", "helpers", "debug", "processes"])
def task(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    if request.param == "threads":
        return request.getfixturevalue("counter"), {"num_threads": 3}
    options: dict[str, Any] = {
        "kernels": {},
        "helpers": {"num_threads": 3},
        "debug": {"debug": True},
        "processes": {"executor": "processes", "num_threads": 2},
    }[request.param]
    return "CartPole-v1", options


@contextmanager
def alarms(seed: int = 0) -> Iterator[Callable[[], None]]:
    """Yields a function that lets the handler raise `Alarm` once, at a random moment."""
    rng, armed = random.Random(seed), [False]

    def ring(*_: object) -> None:
        if armed[0]:
            armed[0] = False
            raise Alarm

    def arm() -> None:
        armed[0] = True
        signal.setitimer(signal.ITIMER_REAL, rng.choice([2e-6, 2e-5, 2e-4]) * (0.1 + rng.random()))

    usual = signal.signal(signal.SIGALRM, ring)
    try:
        yield arm
    finally:
        armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)


def alarms_for(options: dict[str, Any]) -> int:
    """Number of alarms: fewer in debug mode, where Python steps the environments."""
    return ALARMS // 4 if "debug" in options else ALARMS


def bombard(call: Callable[[], Any], mend: Callable[[], Any], times: int) -> int:
    """Repeats the call until so many alarms have interrupted it; after each, calls `mend` with no alarm set."""
    came = 0
    with alarms() as arm:
        while came < times:
            try:
                arm()
                for _ in range(1000):
                    call()
            except Alarm:
                came += 1
                mend()
            signal.setitimer(signal.ITIMER_REAL, 0)
    return came


class Follower:
    """Tracks the steps of each environment, and fails at a result that does not continue the previous one.

    ``elapsed_step`` grows by one with each step of an environment, and is 0 after a reset.
    """

    def __init__(self, pool: Any):
        self.pool = pool
        self.elapsed = np.full(pool.num_envs, -1)

    def note(self, result: Any, exact: bool = True) -> Any:
        info = result[-1]
        ids, elapsed = info["env_id"], info["elapsed_step"]
        assert len(set(ids.tolist())) == len(ids), "an environment twice in a batch"
        if exact:
            expected = np.where(elapsed == 0, 0, self.elapsed[ids] + 1)
            assert elapsed.tolist() == expected.tolist()
        self.elapsed[ids] = elapsed
        return result

    def whole(self) -> None:
        """Resets the pool and receives all results in flight; after this the pool must work."""
        self.note(self.pool.reset(), exact=False)
        while self.pool.is_async and self.pool._status.num_in_flight:
            self.note(self.pool.recv(timeout=30), exact=False)


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_an_interrupted_step_had_not_begun_or_requires_a_reset(
    make: Any, task: tuple[str, dict[str, Any]], mode: str
) -> None:
    """The environments of an interrupted step refuse steps until their reset, unless it had not begun."""
    name, options = task
    pool = make(name, num_envs=N, seed=0, autoreset=mode, max_episode_steps=10**6, **options)
    follower, refused = Follower(pool), list[str]()
    actions = itertools.cycle([np.zeros(N, np.int64), np.ones(N, np.int64)])

    def reset_those_that_ended(result: Any) -> None:
        if mode == "disabled" and (over := result[2] | result[3]).any():
            follower.note(pool.reset(np.flatnonzero(over)))

    def call() -> None:
        reset_those_that_ended(pool.step(next(actions)))

    def mend() -> None:
        try:
            result = pool.step(next(actions))
        except SequenceError as error:
            refused.append(str(error))
            follower.note(pool.reset(), exact=False)
            result = pool.step(next(actions))
        follower.note(result, exact=False)
        reset_those_that_ended(result)
        follower.note(result := pool.step(next(actions)), exact=mode == "next_step")
        reset_those_that_ended(result)

    pool.reset()
    assert bombard(call, mend, alarms_for(options)) == alarms_for(options)
    assert all("reset it first" in message for message in refused)
    twin = pickle.loads(pickle.dumps(pool))
    for ours, theirs in zip(pool.step(next(actions)), twin.step(next(actions)), strict=True):
        assert type(ours) is type(theirs)
    twin.close()


def test_a_synchronous_pool_works_after_interrupted_partial_calls(make: Any, task: tuple[str, dict[str, Any]]) -> None:
    name, options = task
    pool = make(name, num_envs=N, seed=0, max_episode_steps=10**6, **options)
    follower = Follower(pool)
    first, rest, action = [4, 1, 0], [2, 5, 3], np.zeros(3, np.int64)

    def call() -> None:
        pool.send(action, first)
        pool.step(action, rest)
        pool.send(action, rest)
        pool.recv()
        pool.load_state(first, pool.save_state(first))
        pool.reset([2])

    def mend() -> None:
        follower.whole()
        for _ in range(2):
            pool.send(action, first)
            result = follower.note(pool.step(action, rest))
            assert result[4]["env_id"].tolist() == rest
            assert follower.note(pool.recv(timeout=30))[4]["env_id"].tolist() == first

    pool.reset()
    assert bombard(call, mend, alarms_for(options) // 2) == alarms_for(options) // 2


def test_an_asynchronous_pool_works_after_interrupted_calls(make: Any, task: tuple[str, dict[str, Any]]) -> None:
    """Every result continues the environment's previous one, or the environment was interrupted and reset."""
    name, options = task
    pool = make(name, num_envs=N, batch_size=2, seed=0, max_episode_steps=10**6, **options)
    follower, action = Follower(pool), np.zeros(2, np.int64)

    def call() -> None:
        pool.send(action, pool.recv()[4]["env_id"])

    def mend() -> None:
        follower.whole()
        pool.send(np.zeros(N, np.int64))
        for _ in range(6):
            ids = follower.note(pool.recv(timeout=30))[4]["env_id"]
            pool.send(action, ids)

    pool.async_reset()
    assert bombard(call, mend, alarms_for(options)) == alarms_for(options)


def test_a_wait_that_is_interrupted_loses_nothing(make: Any, counter: str) -> None:
    """Alarms in `recv` only: each result still comes, once."""
    pool = make(counter, num_envs=N, batch_size=2, num_threads=3, delay_us=300, length=10**9)
    follower, unharmed = Follower(pool), 0
    pool.async_reset()
    with alarms() as arm:
        while unharmed < ALARMS // 4:
            result, waiting = None, pool._status.num_in_flight
            try:
                arm()
                result = pool.recv()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Alarm:
                signal.setitimer(signal.ITIMER_REAL, 0)
                unharmed += pool._status.num_in_flight == waiting
            if result is not None:
                follower.note(result, exact=False)
            # an alarm at the end of recv's bookkeeping loses the result, as one right after the call would
            idle = np.flatnonzero(~pool._status.in_flight)
            if idle.size:
                pool.send(np.ones(len(idle), np.int64), idle)
    assert not pool._status.broken.any()
    pool.recv(timeout=30)


@pytest.mark.parametrize("batch_size", [2, 0])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_wait_that_is_interrupted_at_once_loses_nothing(
    make: Any, counter: str, executor: str, batch_size: int
) -> None:
    """The earliest interrupt: before the first statement of the executor's recv."""
    name, options = (counter, {"length": 10**9}) if executor == "threads" else ("CartPole-v1", {"executor": executor})
    pool = make(name, num_envs=4, batch_size=batch_size, num_threads=2, **options)
    begun = pool._executor.recv.__code__

    def interrupt(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code is begun:
            raise Alarm

    pool.async_reset()
    for _ in range(2):
        usual = sys.gettrace()
        sys.settrace(interrupt)
        try:
            with pytest.raises(Alarm):
                pool.recv()
        finally:
            sys.settrace(usual)
        ids = np.concatenate([pool.recv(timeout=30)[4]["env_id"] for _ in range(2 if batch_size else 1)])
        assert sorted(ids.tolist()) == [0, 1, 2, 3]
        pool.send(np.ones(4, np.int64), np.arange(4))


def test_close_in_a_signal_handler_ends_the_running_call_with_closed_error(task: tuple[str, dict[str, Any]]) -> None:
    """Programs that are told to end do this: the call that the signal interrupts raises `ClosedError`."""
    name, options = task
    for delay in (0.0003, 0.001, 0.003):
        pool = headrace.make(name, num_envs=N, seed=0, **options)
        usual = signal.signal(signal.SIGALRM, lambda *_, pool=pool: pool.close())
        try:
            pool.reset()
            signal.setitimer(signal.ITIMER_REAL, delay)
            with pytest.raises(ClosedError):
                play_on(pool)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, usual)


def play_on(pool: Any, going: threading.Event | None = None) -> None:
    """Steps the pool, or receives and sends, until an exception ends it."""
    while True:
        if going is None:
            pool.step(np.zeros(N, np.int64))
        else:
            ids = pool.recv()[4]["env_id"]
            pool.send(np.zeros(len(ids), np.int64), ids)
            going.set()


def play_to_the_end(pool: Any, going: threading.Event, ended: list[BaseException]) -> None:
    try:
        play_on(pool, going)
    except BaseException as error:
        ended.append(error)


@pytest.mark.parametrize("batch_size", [N, 2])
def test_close_ends_the_calls_of_another_thread_with_closed_error(
    task: tuple[str, dict[str, Any]], batch_size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    name, options = task
    for _ in range(5):
        pool = headrace.make(name, num_envs=N, batch_size=batch_size, seed=0, **options)
        pool.async_reset()
        ended, going = list[BaseException](), threading.Event()

        other = threading.Thread(target=play_to_the_end, args=(pool, going, ended))
        other.start()
        assert going.wait(60)
        time.sleep(0.002)
        pool.close()
        other.join(60)
        assert [type(error) for error in ended] == [ClosedError]
        del pool
    assert "Traceback" not in capfd.readouterr().err


def test_two_receiving_threads_get_whole_batches_or_a_sequence_error(make: Any, counter: str) -> None:
    """Each thread gets whole batches or `SequenceError`; no environment comes twice, and none is lost."""
    pool = make(counter, num_envs=8, batch_size=2, num_threads=3, delay_us=200, length=10**9)
    pool.async_reset()
    seen = np.zeros(8, int)
    told, failed, book = ([], []), list[BaseException](), threading.Lock()
    last = np.full(8, -1)

    def play(me: int) -> None:
        try:
            for _ in range(300):
                try:
                    *_, info = pool.recv(timeout=30)
                except SequenceError as error:
                    told[me].append(str(error))
                    time.sleep(0.0002)
                    continue
                ids = info["env_id"].copy()
                with book:
                    assert len(set(ids.tolist())) == 2
                    assert (info["elapsed_step"] == last[ids] + 1).all()
                    last[ids] += 1
                    seen[ids] += 1
                pool.send(np.zeros(2, np.int64), ids)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=play, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert all("receiving" in message or "in flight" in message for message in told[0] + told[1])
    assert seen.sum() > 0
    while pool._status.num_in_flight >= 2:
        pool.recv(timeout=30)


def test_one_thread_may_send_while_another_receives(make: Any, task: tuple[str, dict[str, Any]]) -> None:
    name, options = task
    pool = make(name, num_envs=8, batch_size=2, seed=0, max_episode_steps=10**6, **options)
    follower, free, steps = Follower(pool), [], 300
    ready = threading.Semaphore(0)
    failed: list[BaseException] = []

    def send() -> None:
        try:
            for _ in range(steps):
                ready.acquire()
                ids = free.pop(0)
                pool.send(np.zeros(2, np.int64), ids)
        except BaseException as error:
            failed.append(error)

    pool.async_reset()
    sender = threading.Thread(target=send)
    sender.start()
    received = 0
    while received < steps and not failed:
        if pool._status.num_in_flight < 2:
            time.sleep(0.0002)
            continue
        free.append(follower.note(pool.recv(timeout=60))[4]["env_id"])
        received += 1
        ready.release()
    sender.join(60)
    assert not failed


def _compile() -> None:
    with launch.told_after("compiling"):
        pass


@pytest.mark.parametrize("call", [_compile, lambda: headrace.make("Acrobot-v1", executor="processes")])
def test_no_delayed_message_stays_scheduled_after_an_interrupt(call: Callable[[], object]) -> None:
    def interrupt(frame: Any, event: str, _: object) -> None:
        if event == "return" and frame.f_code is threading.Thread.start.__code__:
            sys.setprofile(None)
            raise Alarm

    others = set(threading.enumerate())
    sys.setprofile(interrupt)
    with pytest.raises(Alarm):
        call()
    timers = [thread for thread in set(threading.enumerate()) - others if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)
