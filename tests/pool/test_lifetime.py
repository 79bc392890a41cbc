"""Closing, collecting, forking, pickling, interrupting: nothing hangs, nothing leaks, nothing is lost."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import ClosedError, SequenceError
from headrace.pool.executors.kernels.agents import build_agents_kernel
from headrace.pool.executors.kernels.program import build_kernel
from headrace.pool.make_pool import pool_settings
from headrace.pool.pool import Pool
from headrace.pool.registry import build_task
from nightly import rest_nightly
from python_games import COUNT


@pytest.fixture(params=["threads", "kernels", "processes"])
def task(request: pytest.FixtureRequest) -> str:
    tasks = {"kernels": "CartPole-v1", "processes": COUNT}
    return tasks.get(request.param) or request.getfixturevalue("counter")


def native_threads() -> int:
    """Threads of this process, once those that are just ending have gone."""
    before, now = -1, len(list(Path("/proc/self/task").iterdir()))
    while before != now:
        time.sleep(0.05)
        before, now = now, len(list(Path("/proc/self/task").iterdir()))
    return now


def test_close_ends_the_threads_at_once(counter: str) -> None:
    before = native_threads()
    pool = headrace.make(counter, num_envs=8, batch_size=4, num_threads=4)
    pool.async_reset()
    assert native_threads() == before + 4
    pool.close()
    assert native_threads() == before


def test_a_pool_that_is_dropped_is_closed(task: str) -> None:
    before = native_threads()
    pool = headrace.make(task, num_envs=8, num_threads=3)
    pool.reset()
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    assert native_threads() == before


@pytest.mark.parametrize("closed", [True, False])
def test_a_pool_does_not_wait_for_the_garbage_collector(task: str, closed: bool) -> None:
    """The collector does not know how much memory pools hold: a thousand small pools took 40 MB."""
    pool = headrace.make(task, num_envs=8, num_threads=2)
    pool.reset()
    gone = weakref.ref(pool._executor), weakref.ref(pool._ring.take(8).arrays["reward"])
    gc.collect()
    gc.disable()
    try:
        if closed:
            pool.close()
        del pool
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


class Last:
    """Refers to itself, so that the garbage collector frees its pool before it calls ``__del__``."""

    def __init__(self, pool: Any, told: list[str]):
        self.pool, self.told, self.me = pool, told, self

    def __del__(self) -> None:
        for use in (self.pool.reset, self.pool.save_state, self.pool.render, self.pool.close):
            try:
                use()
            except Exception as error:
                self.told.append(type(error).__name__)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_pool_that_the_garbage_collector_freed_is_closed(task: str, device: str | None) -> None:
    if device and task != "CartPole-v1":
        pytest.skip("only kernel environments have pools of tensors")
    pool = headrace.make_torch(task, num_envs=2, device=device) if device else headrace.make(task, num_envs=2)
    pool.reset()
    told: list[str] = []
    Last(pool, told)
    del pool
    gc.collect()
    assert told == ["ClosedError"] * 3, "and to close it once more is no error"


def test_results_outlive_the_pool(task: str) -> None:
    with headrace.make(task, num_envs=4, seed=1) as pool:
        obs, _ = pool.reset()
        before = obs.copy()
    gc.collect()
    assert (obs == before).all()


def test_arrays_that_are_kept_are_never_written_again(make: Any, task: str) -> None:
    pool = make(task, num_envs=4, seed=1)
    kept = [pool.reset()[0][1:3]]  # a view keeps the whole batch
    copies = [kept[0].copy()]
    for _ in range(50):
        obs, *_ = pool.step([0, 1, 0, 1])
        kept.append(obs[0])
        copies.append(obs[0].copy())
    for view, copy in zip(kept, copies, strict=True):
        assert (view == copy).all()


def test_memory_is_used_again_when_results_are_dropped(make: Any, task: str) -> None:
    pool = make(task, num_envs=4, seed=1)
    pool.reset()
    seen = {pool.step([0, 1, 0, 1])[0].ctypes.data for _ in range(100)}
    assert len(seen) <= 3


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_a_pickled_pool_continues_from_its_present_state(make: Any, task: str, mode: str) -> None:
    pool = make(task, num_envs=4, seed=9, autoreset=mode, max_episode_steps=30)
    pool.reset()
    for _ in range(5):
        pool.step([1, 0, 1, 0])
    twin = pickle.loads(pickle.dumps(pool))
    try:
        assert twin.config == pool.config
        for _ in range(3):
            ours, theirs = pool.step([1, 0, 0, 1]), twin.step([1, 0, 0, 1])
            for a, b in zip(ours[:4], theirs[:4], strict=True):
                assert (a == b).all()
        assert (pool.reset()[0] == twin.reset()[0]).all()  # the random streams came along
    finally:
        twin.close()
    pool.send([0] * 4)
    with pytest.raises(SequenceError, match="in flight"):
        pickle.dumps(pool)


def test_a_pool_that_was_not_made_by_headrace_make_does_not_pickle() -> None:
    with Pool(build_task("CartPole-v1"), pool_settings(2)) as pool, pytest.raises(TypeError, match=r"headrace\.make"):
        pickle.dumps(pool)


def test_a_pool_that_was_never_reset_pickles(make: Any, task: str) -> None:
    twin = pickle.loads(pickle.dumps(make(task, num_envs=2, seed=4)))
    with twin:
        assert twin.reset()[0].shape[0] == 2


@pytest.mark.parametrize("batch_size", [4, 2])
def test_a_forked_child_gets_a_closed_error_and_ends(make: Any, task: str, batch_size: int) -> None:
    """The child can neither use nor harm the pool, and can make one of its own."""
    pool = make(task, num_envs=4, batch_size=batch_size, num_threads=2, seed=1)
    pool.reset()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                pool.reset()
            except ClosedError:
                pool.close()
                if task != "CartPole-v1":  # Warp itself does not work in forked children
                    with headrace.make(task, num_envs=4, num_threads=2) as own:
                        own.reset()
                        own.step([0, 1, 0, 1])
                status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if done[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done[0] == child
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert pool.reset()[0].shape[0] == batch_size


def test_ctrl_c_interrupts_a_wait_and_loses_nothing(make: Any, counter: str, request: pytest.FixtureRequest) -> None:
    # a process started in the background may have been told to ignore Ctrl-C
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, usual))
    for batch_size in (1, 2):
        pool = make(counter, num_envs=2, batch_size=batch_size, num_threads=2, delay_us=700_000)
        pool.async_reset()
        for _ in range(2 // batch_size):
            pool.recv()
        pool.send([1], [1])
        alarm = threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT))
        alarm.start()
        with pytest.raises(KeyboardInterrupt):
            # a synchronous recv takes part in the work; a timeout makes it wait for others
            pool.recv(timeout=30)
        alarm.join()
        *_, info = pool.recv(timeout=30)
        assert info["env_id"].tolist() == [1]


@pytest.mark.parametrize("ending", rest_nightly(["", "sys.exit(0)", "pool.close()", "del pool"], "", "del pool"))
def test_the_interpreter_ends_with_a_pool_open(ending: str) -> None:
    script = f"""
import sys, headrace
pool = headrace.make("CartPole-v1", num_envs=4096, batch_size=1024, num_threads=2)
pool.async_reset()
pool.recv()
{ending}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr


def test_a_step_is_refused_while_another_thread_steps_the_pool(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=2, num_threads=1, delay_us=300_000)
    pool.reset()
    other = threading.Thread(target=lambda: pool.step([0, 0]))
    other.start()
    time.sleep(0.1)
    with pytest.raises(SequenceError, match="another thread"):
        pool.step([0, 0])
    other.join()
    pool.step([0, 0])


def test_import_needs_neither_torch_nor_warp_nor_the_compiled_core() -> None:
    script = """
import sys, headrace
headrace.list_all_envs()
assert not {"torch", "warp", "headrace_atari._atari"} & set(sys.modules), sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_many_pools_made_and_closed_leave_no_threads(task: str) -> None:
    headrace.make(task, num_envs=4, num_threads=2).close()
    before = native_threads()
    for _ in range(20 if task == COUNT else 100):
        with headrace.make(task, num_envs=4, num_threads=2) as pool:
            pool.reset()
            pool.step(np.zeros(4, np.int64))
    assert native_threads() == before


@pytest.mark.parametrize("task", ["CartPole-v1", "TicTacToe-v0"])
def test_pools_of_a_task_share_its_kernel(task: str) -> None:
    """Formerly each pool kept a kernel of its own for as long as the program ran."""
    kept = []
    for _ in range(3):
        with headrace.make(task, num_envs=2) as pool:
            pool.reset()
        kept.append([build.cache_info().currsize for build in (build_kernel, build_agents_kernel)])
    assert kept[0] == kept[1] == kept[2]
