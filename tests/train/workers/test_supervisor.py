"""Workers are started, started again when they die, and never left behind: with real processes, really killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import OptionError, WorkerError
from headrace.train.workers.board import Board
from headrace.train.workers.supervisor import Supervisor


def count(board: Board, number: int, life: int) -> None:
    while not board.stopped:
        board.steps[number] += 1
        time.sleep(0.001)


def deaf_to_all(board: Board, life: int) -> None:
    while True:
        time.sleep(1)


def fails(board: Board, life: int) -> None:
    raise ValueError(f"in life {life}")


def fails_at_first(board: Board, life: int) -> None:
    if life == 0:
        raise ValueError("only now")
    count(board, 0, life)


def misconfigured(board: Board, life: int) -> None:
    raise OptionError("no such thing")


def wait_for(condition, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.01)


def supervise(supervisor: Supervisor, target, board: Board) -> None:
    """Start a worker, and start it again, for ever."""
    supervisor.start("sampler", target, board)
    while True:
        supervisor.check()
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_killed_workers_come_back_and_go_on():
    board = Board(2)
    chance = random.Random(0)
    with Supervisor(board.stop) as supervisor:
        for number in range(2):
            supervisor.start(f"sampler {number}", count, board, number, progress=lambda n=number: int(board.steps[n]))
        for killed in range(1, 7):
            before = board.steps.copy()
            wait_for(lambda before=before: (board.steps > before).all())
            name, pid = chance.choice(list(supervisor.pids().items()))
            os.kill(pid, signal.SIGKILL)
            words: list[str] = []
            wait_for(lambda words=words: words.extend(supervisor.check()) or words)
            assert name in words[0]
            assert "SIGKILL" in words[0]
            assert supervisor.restarts == killed
        before = board.steps.copy()
        wait_for(lambda: (board.steps > before).all())
        pids = supervisor.pids().values()
    assert all(gone(pid) for pid in pids)


def test_who_raises_every_time_ends_the_run_with_its_words():
    board = Board(1)
    with Supervisor(board.stop) as supervisor, pytest.raises(WorkerError, match="ValueError: in life 2"):
        supervise(supervisor, fails, board)


def test_who_raises_once_is_forgiven():
    board = Board(1)
    with Supervisor(board.stop) as supervisor:
        supervisor.start("sampler", fails_at_first, board, progress=lambda: int(board.steps[0]))
        words: list[str] = []
        wait_for(lambda: words.extend(supervisor.check()) or board.steps[0] > 0)
    assert len(words) == 1
    assert "ValueError: only now" in words[0]


def test_wrong_settings_are_not_tried_twice():
    board = Board(1)
    with Supervisor(board.stop) as supervisor, pytest.raises(OptionError, match="no such thing"):
        supervise(supervisor, misconfigured, board)
    assert supervisor.restarts == 0


def test_who_does_not_end_is_ended():
    board = Board(1)
    supervisor = Supervisor(board.stop)
    supervisor.start("sampler", deaf_to_all, board)
    (pid,) = supervisor.pids().values()
    supervisor.close(patience=0.2)
    assert gone(pid)
    supervisor.close()


PARENT = """
import sys, time
from headrace.train.workers.board import Board
from headrace.train.workers.supervisor import Supervisor
sys.path.insert(0, {folder!r})
from test_supervisor import count
if __name__ == "__main__":
    board = Board(1)
    supervisor = Supervisor(board.stop)
    supervisor.start("sampler", count, board, 0)
    while not board.steps[0]:
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
    board = Board(2)
    board.note_episodes(0, np.array([1.0, 2.0]), np.array([10, 20]))
    board.note_episodes(1, np.array([3.0]), np.array([30]))
    returns, lengths = board.new_episodes()
    np.testing.assert_array_equal(returns, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(lengths, [10, 20, 30])
    assert len(board.new_episodes().returns) == 0
    for i in range(5000):
        board.note_episodes(0, np.array([float(i)]), np.array([1]))
    returns, _ = board.new_episodes()
    np.testing.assert_array_equal(returns, np.arange(5000 - len(returns), 5000))
    assert len(returns) >= 2000
