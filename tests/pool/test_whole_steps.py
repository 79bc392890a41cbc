"""An exception raised by a signal handler during a step leaves the step complete and the pool usable."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from nightly import rest_nightly

# signals come all the time, so that some come while helpers are waited for
INTERRUPTED = """
import signal, sys
import numpy as np
import headrace

task, raises, frame_skip = sys.argv[1], eval(sys.argv[2]), int(sys.argv[3])
pool, twin = (headrace.make(task, num_envs=3, seed=3, num_threads=n, frame_skip=frame_skip) for n in (2, 1))
pool.reset()
twin.reset()
action = np.zeros((3, *pool.action_space.shape), pool.action_space.dtype)
inside = False

def interrupt(*_):
    if inside:
        raise raises("enough")

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
interrupts = 0
while interrupts < 3:
    inside = True
    try:
        pool.step(action)
        inside = False
    except raises as error:
        inside = False
        assert str(error) == "enough"
        interrupts += 1
    if pool.save_state() != twin.save_state():  # the step had begun before it was interrupted
        twin.step(action)
        assert pool.save_state() == twin.save_state()
signal.setitimer(signal.ITIMER_REAL, 0)
for ours, theirs in zip(pool.step(action)[:4], twin.step(action)[:4]):
    assert np.array_equal(ours, theirs)
print("whole")
"""


@pytest.mark.parametrize("raises", rest_nightly(["KeyboardInterrupt", "ZeroDivisionError"], "KeyboardInterrupt"))
@pytest.mark.parametrize(
    ("task", "needs", "frame_skip"), [("HalfCheetah-v5", "mujoco", 1000), ("Pong-v5", "ale_py", 1000)]
)
def test_a_step_interrupted_by_a_signal_is_completed(task: str, needs: str, frame_skip: int, raises: str) -> None:
    pytest.importorskip(needs)
    command = [sys.executable, "-c", INTERRUPTED, task, raises, str(frame_skip)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


@pytest.mark.parametrize("raises", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupted_step_waits_for_its_slowest_environment(
    make: Any, counter: str, raises: type[BaseException]
) -> None:
    """Environment i sleeps i × 0.2 s, and the caller has the first: signals come while it waits for a helper."""
    pool = make(counter, num_envs=3, num_threads=3, delay_us=200_000, length=100)
    pool.reset()

    def interrupt(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise raises("enough")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for steps in (1, 3):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(raises, match="enough"):
                pool.step([1, 1, 1])
            *_, info = pool.step([1, 1, 1])
            assert info["elapsed_step"].tolist() == [steps + 1] * 3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
