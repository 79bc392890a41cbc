"""However a pool of ViZDoom's ends, no engine is left behind, nor its memory; nor anything in the working directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import EnvironmentFailure

pytest.importorskip("vizdoom")

SMALL: dict[str, Any] = {"img_height": 24, "img_width": 32, "stack_num": 1, "use_combined_action": True}
NOTHING = np.zeros(2, np.int64)
PROGRAM = """
import sys, numpy as np, headrace
pool = headrace.make("Basic-v1", num_envs=2, num_threads=2, seed=0, use_combined_action=True)
pool.reset()
print("ready", flush=True)
while True:
    pool.step(np.zeros(2, np.int64))
"""


def status(pid: int) -> dict[str, str]:
    """The kernel's status of a process; empty if it has ended, even if its parent has not read its end yet."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {} if found["State"].startswith("Z") else found


def engines(below: int) -> list[int]:
    """The engines among a process's descendants."""
    parents = {int(path.name): status(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}

    def descends(pid: int) -> bool:
        while pid > 1 and parents.get(pid):
            pid = int(parents[pid]["PPid"])
            if pid == below:
                return True
        return False

    return [pid for pid, said in parents.items() if said.get("Name") == "vizdoom" and descends(pid)]


def until(true: Callable[[], Any], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def workers(pool: Any) -> list[int]:
    return [process.pid for process in pool._executor._dispatch._workers._processes]


def test_engines_end_with_the_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with headrace.make("Basic-v1", num_envs=2, num_threads=1, seed=0, **SMALL) as pool:
        assert not any(map(engines, workers(pool))), "none is started before it is needed"
        pool.reset()
        (worker,) = workers(pool)
        playing = engines(worker)
        assert len(playing) == 2
        shared = [line for line in Path(f"/proc/{worker}/maps").read_text().splitlines() if "/dev/shm/ViZDoom" in line]
        assert shared and all(line.endswith("(deleted)") for line in shared)
        pool.step(NOTHING)
    assert until(lambda: not any(map(status, playing)))
    assert not list(tmp_path.iterdir())


def test_engines_end_with_a_worker_that_is_killed() -> None:
    with headrace.make("Basic-v1", num_envs=2, num_threads=1, seed=0, **SMALL) as pool:
        first, _ = pool.reset()
        first = first.copy()
        (worker,) = workers(pool)
        playing = engines(worker)
        os.kill(worker, signal.SIGKILL)
        assert until(lambda: not any(map(status, playing)))
        with pytest.raises(EnvironmentFailure, match="SIGKILL"):
            pool.step(NOTHING)
        assert np.array_equal(pool.reset(seed=0)[0], first)


def test_engines_end_with_a_program_that_is_killed() -> None:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    playing = engines(program.pid)
    assert len(playing) == 2
    program.kill()
    program.wait()
    program.stdout.close()
    assert until(lambda: not any(map(status, playing)))


def test_on_failure_restart_replaces_a_killed_engine() -> None:
    with headrace.make("Basic-v1", num_envs=2, num_threads=1, seed=0, on_failure="restart", **SMALL) as pool:
        pool.reset()
        os.kill(engines(workers(pool)[0])[0], signal.SIGKILL)
        _, _, terminated, truncated, info = pool.step(NOTHING)
        assert not terminated.any() and truncated.sum() == 1
        assert info["restarted"].tolist() == truncated.tolist()
        for _ in range(2):
            assert "restarted" not in pool.step(NOTHING)[-1]
        assert len(engines(workers(pool)[0])) == 2


def test_a_killed_engine_raises_the_failure_of_its_environment() -> None:
    with headrace.make("Basic-v1", num_envs=2, num_threads=1, seed=0, **SMALL) as pool:
        pool.reset()
        os.kill(engines(workers(pool)[0])[0], signal.SIGKILL)
        with pytest.raises(EnvironmentFailure, match=r"Basic-v1, environment \d raised"):
            pool.step(NOTHING)
        pool.reset()
        pool.step(NOTHING)
        assert len(engines(workers(pool)[0])) == 2


def test_interrupts_reach_no_engine() -> None:
    """Ctrl-C in a terminal is sent to every process there; a pool outlives it."""
    with headrace.make("Basic-v1", num_envs=2, num_threads=1, seed=0, **SMALL) as pool:
        pool.reset()
        (worker,) = workers(pool)
        for pid in (worker, *engines(worker)):
            os.kill(pid, signal.SIGINT)
        for _ in range(5):
            pool.step(NOTHING)
        assert len(engines(worker)) == 2
