"""A program ends well while a daemon thread is inside a pool."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENDING = """
import sys, threading
import numpy as np
import headrace

task, how = sys.argv[1:]
pool = headrace.make(task, num_envs=6, num_threads=2, seed=0, batch_size=3 if how == "async" else 0)
actions = np.zeros((6, *pool.action_space.shape), pool.action_space.dtype)
busy = threading.Event()
threading.excepthook = lambda raised: None  # that the pool was closed

def play():
    pool.reset() if how == "step" else pool.async_reset()
    for i in range(10**9):
        if how == "step":
            pool.step(actions)
        else:
            ids = pool.recv()[4]["env_id"]
            pool.send(actions[ids], ids)
        if i == 20:
            busy.set()

threading.Thread(target=play, daemon=True).start()
assert busy.wait(60)
"""


@pytest.mark.parametrize("how", ["async", "sync", "step"])
@pytest.mark.parametrize(("task", "needs"), [("Pong-v5", "ale_py"), ("Ant-v5", "mujoco"), ("CartPole-v1", "numpy")])
@pytest.mark.parametrize("time", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_daemon_thread_in_a_pool(task: str, needs: str, how: str, time: int) -> None:
    pytest.importorskip(needs)
    done = subprocess.run([sys.executable, "-c", ENDING, task, how], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
