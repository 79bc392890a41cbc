"""What the system refuses is an error that says which limit to raise, and leaves nothing behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, LimitError, OptionError
from headrace.limits import limits_named, need_files, refusal
from nightly import rest_nightly

# pools of worker processes under every limit from none to spare up to enough, in one process of its own
CRAMPED = """
import gc, os, resource
import headrace
from headrace.errors import LimitError

def files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))

def children():
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as file:
            found |= set(file.read().split())
    return found

def attempt(batch_size):
    with headrace.make("gymnasium:CartPole-v1", num_envs=4, batch_size=batch_size, num_threads=3) as pool:
        pool.async_reset()
        pool.recv()

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
headrace.make_spec("gymnasium:CartPole-v1")  # what is imported once
before, refused = files(), 0
for batch_size in (4, 2):
    for spare in range(0, 24, 2):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + spare, hard))
        try:
            attempt(batch_size)
        except LimitError as error:
            words = str(error)
            assert "too many open files" in words and "(ulimit -n)" in words and str(before + spare) in words, words
            refused += 1
        else:
            raise AssertionError(f"{spare} files to spare were enough")
        assert files() == before, (files(), before)
        assert not children(), children()
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
attempt(4)
attempt(2)
print("refused", refused)
"""

# makes a pool of a task where no file can be opened any more
NO_FILE = """
import os, resource, sys
import headrace

task = sys.argv[1]
headrace.make(task, num_envs=2).close()  # what is imported and compiled once
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
try:
    with headrace.make(task, num_envs=2) as pool:
        pool.reset()
except headrace.errors.LimitError as error:
    assert "(ulimit -n)" in str(error), error
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
print("ended well")
"""

# a command to which the system gives one further GiB of memory
SPARE = """
import resource, sys
import torch, headrace.train
from headrace.cli.main import main

with open("/proc/self/statm") as file:
    most = int(file.read().split()[0]) * resource.getpagesize() + (1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
raise SystemExit(main(sys.argv[1:]))
"""


def run(code: str, *args: str) -> None:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads Linux's /proc")
def test_worker_processes_without_enough_files_leave_nothing_behind() -> None:
    run(CRAMPED)


@pytest.mark.parametrize(
    "task", rest_nightly(["CartPole-v1", "Pong-v5", "HalfCheetah-v5", "gymnasium:CartPole-v1"], "Pong-v5")
)
def test_a_pool_names_the_limit_of_open_files(task: str) -> None:
    run(NO_FILE, task)


@pytest.mark.parametrize(
    "command",
    [
        "bench gymnasium:CartPole-v1 --num-envs 4",
        "train gymnasium:CartPole-v1 --total-steps 1000",
        "train Pendulum-v1 --algo sac --samplers 2 --total-steps 1000",
    ],
)
def test_a_command_names_the_limit_to_raise(command: str, tmp_path: Path) -> None:
    if command.startswith("train"):
        pytest.importorskip("torch")
    limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))"
    code = f"{limited}; from headrace.cli.main import main; raise SystemExit(main({command.split()!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=250,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 1, done.stderr
    assert "too many open files; raise the limit, which is 20 for a process (ulimit -n)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_a_run_without_the_memory_for_its_rollout_leaves_no_folder(tmp_path: Path) -> None:
    command = "train CartPole-v1 --num-envs 4096 --num-steps 32768 --total-steps 1000000000 --no-viewer".split()
    command += ["--run-dir", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", SPARE, *command], capture_output=True, text=True, timeout=250)
    assert done.returncode == 1, done.stderr
    assert "training: there is not enough memory" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "no"), "(ulimit -n)"),
        (OSError(errno.ENFILE, "no"), "all programs"),
        (OSError(errno.EAGAIN, "no"), "(ulimit -u)"),
        (OSError(errno.ENOMEM, "no"), "(ulimit -v)"),
        (RuntimeError("can't start new thread"), "(ulimit -u)"),
        (ImportError("some.so: cannot open shared object file: Too many open files"), "(ulimit -n)"),
        (OSError("some.so: failed to map segment from shared object"), "(ulimit -v)"),
        (MemoryError("Unable to allocate 6 GiB\nfor an array"), "not enough memory: Unable to allocate 6 GiB; ask for"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "not enough memory: DefaultCPUAllocator: can't"),
    ],
)
def test_each_limit_is_named(error: Exception, words: str) -> None:
    with pytest.raises(LimitError, match=r"^a pool: ") as caught, limits_named("a pool"):
        raise error
    assert words in str(caught.value)
    assert caught.value.__cause__ is error
    assert issubclass(LimitError, HeadraceError) and issubclass(LimitError, OSError)


def test_the_cause_of_an_exception_is_examined() -> None:
    error = RuntimeError("a library cannot be loaded")
    error.__cause__ = OSError(errno.ENOMEM, "no")
    with pytest.raises(LimitError, match="memory"), limits_named("a pool"):
        raise error


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "no"), RuntimeError("no"), OptionError("no")])
def test_other_exceptions_stay_as_they_are(error: Exception) -> None:
    assert not refusal(error)
    with pytest.raises(type(error)) as caught, limits_named("a pool"):
        raise error
    assert caught.value is error


def test_a_check_for_enough_files_closes_the_files_that_it_opens() -> None:
    before = os.dup(0)
    os.close(before)
    need_files(10, "nothing")
    after = os.dup(0)
    os.close(after)
    assert after == before
