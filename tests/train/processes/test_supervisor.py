"""Workers are started, started again when they die, and never left behind: with real processes, really killed."""

import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest
from counting import count

from headrace.errors import OptionError, WorkerError
from headrace.pool.executors.processes import deaths
from headrace.train.processes import supervisor as supervisor_module
from headrace.train.processes.counters import Counters
from headrace.train.processes.supervisor import Supervisor
from programs import wait_for


def deaf_to_all(counters: Counters, restarts: int) -> None:
    while True:
        time.sleep(1)


def fails(counters: Counters, restarts: int) -> None:
    raise ValueError(f"in life {restarts}")


def fails_at_first(counters: Counters, restarts: int) -> None:
    if restarts == 0:
        raise ValueError("only now")
    count(counters, 0, restarts)


def misconfigured(counters: Counters, restarts: int) -> None:
    raise OptionError("no such thing")


def supervise(supervisor: Supervisor, target, counters: Counters) -> None:
    """Start a worker, and start it again, for ever."""
    supervisor.start("sampler", target, counters)
    while True:
        supervisor.check()
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_killed_workers_come_back_and_go_on(monkeypatch):
    monkeypatch.setattr(deaths, "SPAN", -1.0)  # as if minutes lay between them
    counters = Counters(2)
    chance = random.Random(0)
    with Supervisor(counters.stop) as supervisor:
        for number in range(2):
            supervisor.start(
                f"sampler {number}", count, counters, number, progress=lambda n=number: int(counters.steps[n])
            )
        for killed in range(1, 7):
            before = counters.steps.copy()
            wait_for(lambda before=before: (counters.steps > before).all())
            name, pid = chance.choice(list(supervisor.pids().items()))
            os.kill(pid, signal.SIGKILL)
            words: list[str] = []
            wait_for(lambda words=words: words.extend(supervisor.check()) or words)
            assert name in words[0]
            assert "SIGKILL" in words[0]
            assert supervisor.restarts == killed
        before = counters.steps.copy()
        wait_for(lambda: (counters.steps > before).all())
        pids = supervisor.pids().values()
    assert all(gone(pid) for pid in pids)


def test_the_third_death_within_a_minute_ends_the_run_by_name():
    counters = Counters(2)
    with Supervisor(counters.stop) as supervisor:
        for number in range(2):
            supervisor.start(
                f"sampler {number}", count, counters, number, progress=lambda n=number: int(counters.steps[n])
            )
        for number in (0, 1):
            wait_for(lambda: (counters.steps > 0).all())
            os.kill(supervisor.pids()[f"sampler {number}"], signal.SIGKILL)
            wait_for(supervisor.check)
        os.kill(supervisor.pids()["sampler 1"], signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"sampler 1 died \(killed by .*the last of 3 deaths within 60 s"):
            wait_for(supervisor.check)
        pids = supervisor.pids().values()
    assert all(gone(pid) for pid in pids)


def test_a_worker_that_raises_every_time_ends_the_run_with_its_words():
    counters = Counters(1)
    with Supervisor(counters.stop) as supervisor, pytest.raises(WorkerError, match="ValueError: in life 2"):
        supervise(supervisor, fails, counters)


def test_a_worker_that_raises_once_is_started_again():
    counters = Counters(1)
    with Supervisor(counters.stop) as supervisor:
        supervisor.start("sampler", fails_at_first, counters, progress=lambda: int(counters.steps[0]))
        words: list[str] = []
        wait_for(lambda: words.extend(supervisor.check()) or counters.steps[0] > 0)
    assert len(words) == 1
    assert "ValueError: only now" in words[0]


def test_wrong_settings_are_not_tried_twice():
    counters = Counters(1)
    with Supervisor(counters.stop) as supervisor, pytest.raises(OptionError, match="no such thing"):
        supervise(supervisor, misconfigured, counters)
    assert supervisor.restarts == 0


def test_a_worker_that_does_not_end_is_killed():
    counters = Counters(1)
    supervisor = Supervisor(counters.stop)
    supervisor.start("sampler", deaf_to_all, counters)
    (pid,) = supervisor.pids().values()
    supervisor.close(patience=0.2)
    assert gone(pid)
    supervisor.close()


PARENT = """
import sys, time
from headrace.train.processes.counters import Counters
from headrace.train.processes.supervisor import Supervisor
sys.path.insert(0, {folder!r})
from counting import count
if __name__ == "__main__":
    counters = Counters(1)
    supervisor = Supervisor(counters.stop)
    supervisor.start("sampler", count, counters, 0)
    while not counters.steps[0]:
        time.sleep(0.01)
    print(*supervisor.pids().values(), flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(folder=str(Path(__file__).parent)))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.kill()
        wait_for(lambda: gone(pid), 10.0)


def test_episodes_pass_over_the_board_in_order():
    counters = Counters(2)
    counters.note_episodes(0, np.array([1.0, 2.0]), np.array([10, 20]))
    counters.note_episodes(1, np.array([3.0]), np.array([30]))
    returns, lengths, _ = counters.new_episodes()
    np.testing.assert_array_equal(returns, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(lengths, [10, 20, 30])
    assert len(counters.new_episodes().returns) == 0
    for i in range(5000):
        counters.note_episodes(0, np.array([float(i)]), np.array([1]))
    returns, *_ = counters.new_episodes()
    np.testing.assert_array_equal(returns, np.arange(5000 - len(returns), 5000))
    assert len(returns) >= 2000


@pytest.mark.nightly
def test_workers_survive_the_fork_server():
    counters = Counters(2)
    with Supervisor(counters.stop) as supervisor:
        supervisor.start("sampler 0", count, counters, 0, progress=lambda: int(counters.steps[0]))
        wait_for(lambda: counters.steps[0] > 0)
        (before,) = supervisor.pids().values()
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        assert server is not None
        os.kill(server, signal.SIGKILL)
        supervisor.start("sampler 1", count, counters, 1, progress=lambda: int(counters.steps[1]))
        wait_for(lambda: supervisor.check() or counters.steps[1] > 0)
        wait_for(lambda: supervisor.check() or supervisor.pids()["sampler 0"] != before)
        assert gone(before)  # nobody writes beside its successor
        reached = int(counters.steps[0])
        wait_for(lambda: counters.steps[0] > reached)
        pids = supervisor.pids().values()
    assert all(gone(pid) for pid in pids)


def test_a_worker_that_stands_still_is_named(monkeypatch):
    monkeypatch.setattr(supervisor_module, "STILL", 0.5)
    counters = Counters(1)
    with Supervisor(counters.stop) as supervisor:
        supervisor.start("sampler", count, counters, 0, pulse=lambda: int(counters.steps[0]))
        wait_for(lambda: supervisor.check() == [] and counters.steps[0] > 0)
        (pid,) = supervisor.pids().values()
        os.kill(pid, signal.SIGSTOP)
        words: list[str] = []
        wait_for(lambda: words.extend(supervisor.check()) or any("stopped" in each for each in words))
        assert str(pid) in words[-1]
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: words.extend(supervisor.check()) or words[-1] == "the sampler goes on")
    assert supervisor.restarts == 0
