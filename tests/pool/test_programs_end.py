"""A program ends well while a daemon thread is inside a pool."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nightly import rest_nightly

ENDING = """
import sys, threading
import numpy as np
import headrace

task, how = sys.argv[1:]
pool = headrace.make(task, num_envs=6, num_threads=2, seed=0, batch_size=3 if how == "async" else 0)
actions = np.zeros((6, *pool.action_space.shape), pool.action_space.dtype)
busy = threading.Event()
threading.excepthook = lambda raised: None  # ignores the error that the pool was closed

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


NEEDED = {"Pong-v5": "ale_py", "Ant-v5": "mujoco", "CartPole-v1": "numpy"}
ENDINGS = [(task, how) for task in NEEDED for how in ("async", "sync", "step")]


@pytest.mark.parametrize(("task", "how"), rest_nightly(ENDINGS, *ENDINGS[::4], ("Pong-v5", "step")))
@pytest.mark.parametrize("time", rest_nightly([1, 2], 1))
def test_a_program_exits_cleanly_while_a_daemon_thread_uses_a_pool(task: str, how: str, time: int) -> None:
    pytest.importorskip(NEEDED[task])
    done = subprocess.run([sys.executable, "-c", ENDING, task, how], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
