"""However a pool of processes ends, nothing of it is left: no process, no descriptor, no memory."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.errors import EnvironmentFailure


class Stubborn(gym.Env):
    """Takes a minute to close in a worker."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        time.sleep(0.2 * float(action))
        return np.ones(1, np.float32), 1.0, False, False, {}

    def close(self):
        if multiprocessing.parent_process() is not None:
            time.sleep(60)


class Closeable(Stubborn):
    """Takes its process with it when it is told to, if it is the first."""

    number = 0

    def close(self):
        pass

    def perish(self):
        if self.number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return "farewell"


class Slow(Closeable):
    """Takes as long to close as it was told."""

    seconds = 0

    def close(self):
        time.sleep(self.seconds)


class Clinging(Closeable):
    """Cannot be closed."""

    def close(self):
        raise OSError("the display is gone")


def workers(pool: headrace.Pool) -> list[int]:
    return [process.pid for process in pool._executor._dispatch._workers._processes]  # type: ignore[attr-defined]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pids: list[int], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_pools_that_lose_workers_leave_no_process_or_descriptor() -> None:
    chance = random.Random(0)

    def once() -> None:
        with headrace.make("CartPole-v1", executor="processes", num_envs=4, num_threads=2, seed=0) as pool:
            pool.reset()
            pids = workers(pool)
            pool.step(np.zeros(4, np.int64))
            lost = chance.choice(pids)
            os.kill(lost, signal.SIGKILL)
            assert gone([lost])
            with pytest.raises(EnvironmentFailure):
                pool.step(np.zeros(4, np.int64))
            pids += workers(pool)
        assert gone(pids)

    once()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(8):
        once()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_answers_to_a_call_that_failed_with_a_worker_are_discarded() -> None:
    with headrace.make(Closeable, num_envs=4, num_threads=2) as pool:
        pool.reset()
        pool.set_attr("number", [0, 1, 2, 3])
        with pytest.raises(EnvironmentFailure, match="environments 0 to 1 were in it"):
            pool.call("perish")
        pool.reset()
        assert pool.get_attr("number", [2, 3]) == [2, 3]
        assert pool.call("perish", env_ids=[3]) == ["farewell"]


def test_closing_a_pool_ends_a_worker_whose_environment_never_closes() -> None:
    pool = headrace.make(Stubborn, num_envs=2, num_threads=2)
    pool.reset()
    pids = workers(pool)
    pool.close()
    assert gone(pids, 1.0)


def test_an_interrupted_close_can_be_repeated_and_leaves_no_process_or_descriptor() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    signal.signal(signal.SIGALRM, interrupt)
    headrace.make(Slow, num_envs=2, num_threads=2).close()
    before = descriptors()
    pool = headrace.make(Slow, num_envs=2, num_threads=2)
    pids = workers(pool)
    pool.set_attr("seconds", [0, 60])
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    pool.close()
    assert not any(map(alive, pids))
    del pool
    assert descriptors() <= before


def test_a_pool_can_be_stepped_after_an_interrupted_step() -> None:
    with headrace.make(Stubborn, num_envs=2, num_threads=2) as pool:
        pool.reset()

        def interrupt(*_: object) -> None:
            raise InterruptedError

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(InterruptedError):
            pool.step(np.array([2, 1]))
        obs, reward, *_ = pool.step(np.array([0, 0]))
        assert obs.tolist() == [[1], [1]] and reward.tolist() == [1, 1]


def test_interrupted_calls_leave_no_answers_for_later_calls() -> None:
    chance = random.Random(0)

    def interrupt(*_: object) -> None:
        raise InterruptedError

    signal.signal(signal.SIGALRM, interrupt)
    with headrace.make(Closeable, num_envs=4, num_threads=2) as pool:
        pool.reset()
        pool.set_attr("number", [0, 1, 2, 3])
        interrupted = 0
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, 0.002))
                try:
                    pool.get_attr("action_space")
                    assert pool.get_attr("number") == [0, 1, 2, 3]
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except InterruptedError:
                interrupted += 1
            assert pool.step(np.zeros(4, np.int64))[1].tolist() == [1] * 4
        assert interrupted


PARENT = """
import os, sys, time
import numpy as np
import headrace

class Mine(__import__("gymnasium").Env):
    import gymnasium as gym
    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}
    def step(self, action):
        return np.ones(1, np.float32), 1.0, False, False, {}

pool = headrace.make(Mine, num_envs=4, num_threads=2)  # a script without a main guard
pool.reset()
print(*[p.pid for p in pool._executor._dispatch._workers._processes], flush=True)
end = sys.argv[1]
if end == "exit":
    sys.exit(0)
if end == "raise":
    raise RuntimeError("over")
while True:
    pool.step(np.zeros(4, np.int64))
"""


@pytest.mark.parametrize("end", ["exit", "raise", "kill", "interrupt"])
def test_workers_end_with_the_program(end: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PARENT)
    program = subprocess.Popen([sys.executable, str(script), end], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    pids = [int(word) for word in program.stdout.readline().split()]
    assert len(pids) == 2
    if end in ("kill", "interrupt"):
        program.send_signal(signal.SIGKILL if end == "kill" else signal.SIGINT)
    program.wait(30)
    assert gone(pids)


def test_an_environment_whose_close_raises_can_still_be_played() -> None:
    with pytest.warns(UserWarning, match=r"close\(\) of .*Clinging.* raised OSError: the display is gone"):
        pool = headrace.make(Clinging, num_envs=2)
    with pool:
        pool.reset()
        assert pool.step(np.zeros(2, np.int64))[1].tolist() == [1.0, 1.0]
