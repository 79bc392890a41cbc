"""Too many threads are refused by Headrace or by the system; the error names `num_threads`; none is left behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headrace
from headrace.errors import OptionError

# memory for the stacks of some threads, and not for those of 4,000
CRAMPED = """
import os, resource, sys, time
import numpy as np
import headrace
from headrace.errors import OptionError

def threads():
    return len(os.listdir("/proc/self/task"))

task = sys.argv[1]
headrace.make(task, num_envs=2, num_threads=1, seed=0).close()
before = threads()
with open("/proc/self/statm") as statm:
    memory = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (memory + 400 * 2**20, resource.RLIM_INFINITY))
for batch_size in (0, 2):
    try:
        headrace.make(task, num_envs=4, batch_size=batch_size, num_threads=1000)
    except OptionError as error:
        assert "num_threads: the system started" in str(error) and "of" in str(error), error
    else:
        raise AssertionError("1,000 threads")
    until = time.monotonic() + 30
    while threads() > before:  # the system lists a thread that was joined for a moment more
        assert time.monotonic() < until, (threads(), before)
        time.sleep(0.01)
if task == "Pong-v5":  # the emulators that pools are measured against
    from headrace_atari import _atari
    from headrace.envs.atari.games import rom_path
    try:
        _atari.bare_emulator(str(rom_path("pong")), num_threads=200, seconds=0.1)
    except OptionError as error:
        assert "num_threads: the system started" in str(error), error
    else:
        raise AssertionError("200 threads")
    assert threads() == before
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with headrace.make(task, num_envs=4, num_threads=2, seed=0) as pool:
    pool.reset()
    pool.step(np.zeros((4, *pool.action_space.shape), pool.action_space.dtype))
print("refused")
"""


@pytest.mark.nightly
@pytest.mark.parametrize(("task", "needs"), [("Pong-v5", "ale_py"), ("Ant-v5", "mujoco")])
def test_threads_that_the_system_cannot_start_are_an_option_error(task: str, needs: str) -> None:
    pytest.importorskip(needs)
    done = subprocess.run([sys.executable, "-c", CRAMPED, task], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


@pytest.mark.parametrize("task", ["Pong-v5", "Ant-v5", "CartPole-v1"])
def test_a_num_threads_above_the_maximum_is_refused(task: str) -> None:
    with pytest.raises(OptionError, match=r"num_threads must be an integer in \[0, 1024\], not 100000"):
        headrace.make(task, num_envs=4, num_threads=100_000)


def test_torch_pools_refuse_a_num_threads_above_the_maximum() -> None:
    pytest.importorskip("torch")
    with pytest.raises(OptionError, match="num_threads"):
        headrace.make_torch("CartPole-v1", num_envs=4, num_threads=100_000)
