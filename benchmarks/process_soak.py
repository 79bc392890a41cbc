"""What is left of pools whose worker processes are killed: a thousand are made and closed, each loses one.

A worker is killed with SIGKILL at a moment drawn at random: while it is started, while it steps, saves a state or
answers a call, or while the pool is closed. The pool is used until that has come about, in most of the rounds, and must
work again then. Counted are descriptors, shared memory, processes and threads, before and after, here and in the server
that workers are forked from; and how much memory grows. A round that takes longer than `HANGS` ends it all.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import RESULTS, heading, tell
from headrace.errors import EnvironmentFailure, StateError, WorkerError
from memory import FLAT_BYTES, resident_and_threads

WARM_UP = 10  # rounds before anything is counted
HANGS = 60.0  # seconds
LATEST = 0.15  # seconds after which a worker is killed at the latest; a pool takes about half of it to be made
ENVS, WORKERS = 6, 2
KINDS: dict[str, dict[str, Any]] = {
    "raises": {"on_failure": "raise"},
    "restarts": {"on_failure": "restart"},
    "asynchronous, raises": {"on_failure": "raise", "batch_size": 2},
    "asynchronous, restarts": {"on_failure": "restart", "batch_size": 2},
}


@dataclass
class SoakArgs:
    """Pools whose workers are killed, and what is left of them."""

    rounds: int = 1000
    """pools that lose a worker"""
    seed: int = 1
    """of who is killed when"""
    out: Path = RESULTS
    """folder for the JSON file"""


class Walk(gym.Env):
    """Wanders along a line and tells where it is, in its info, too."""

    observation_space = gym.spaces.Box(-100, 100, (64,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return np.zeros(64, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += 1 if action else -1
        return np.full(64, self.place, np.float32), 1.0, abs(self.place) > 9, False, {"place": self.place}


class Killer(threading.Thread):
    """Kills one worker, some time after it was started, unless there is none any more.

    Attributes:
        struck: it is over.
        killed: whether there was one.
    """

    def __init__(self, chance: random.Random):
        super().__init__(daemon=True)
        self._chance, self._delay = chance, chance.uniform(0, LATEST)
        self.struck, self.killed = threading.Event(), False

    def run(self) -> None:
        time.sleep(self._delay)
        with suppress(ProcessLookupError):  # it has just ended by itself
            if workers := children(server()):
                os.kill(self._chance.choice(workers), signal.SIGKILL)
                self.killed = True
        self.struck.set()


def server() -> int:
    """The process that workers are forked from."""
    return forkserver._forkserver._forkserver_pid  # pyright: ignore[reportAttributeAccessIssue]


def children(parent: int) -> list[int]:
    """Processes of a parent, those that have ended and were not waited for among them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def standing() -> dict[str, int]:
    """What this process and the server have and use now."""
    gc.collect()
    own, other = (list(Path(f"/proc/{who}/fd").iterdir()) for who in ("self", server()))
    maps = Path("/proc/self/maps").read_text() + Path(f"/proc/{server()}/maps").read_text()
    return {
        "descriptors": len(own),
        "the server's descriptors": len(other),
        "pieces of shared memory": maps.count("memfd:headrace"),
        "processes": len(children(server())) + len(children(os.getpid())),
        "threads": resident_and_threads()[1],
    }


def begin(pool: headrace.Pool) -> None:
    """Begin new episodes everywhere, and leave nothing in flight."""
    pool.reset()
    if pool.is_async:
        for _ in range(ENVS // pool.batch_size - 1):
            pool.recv()


def use(pool: headrace.Pool, chance: random.Random) -> None:
    """One of the things that pools do."""
    every = np.arange(ENVS)
    if pool.is_async:
        pool.send(every % 2)
        for _ in range(20):
            ids = pool.recv()[4]["env_id"]
            pool.send(np.ones(len(ids), np.int64), ids)
        for _ in range(ENVS // pool.batch_size):
            pool.recv()
    else:
        for _ in range(10):
            pool.step(every % 2)
        pool.step(np.ones(2, np.int64), np.array([0, ENVS - 1]))
    what = chance.choice(["save", "call", "reset", "nothing"])
    if what == "save":
        pool.load_state(None, pool.save_state())
    elif what == "call":
        assert len(pool.get_attr("place")) == ENVS
    elif what == "reset":
        begin(pool)


def survive(pool: headrace.Pool, work: Callable[[], Any]) -> int:
    """Do it, and begin anew where that fails as it may; answers how often it did."""
    failures = 0
    while True:
        try:
            if failures:
                begin(pool)
            work()
            return failures
        except (EnvironmentFailure, StateError):
            failures += 1
            assert failures < 3, "one worker was killed, and no more"


def one_round(chance: random.Random, options: dict[str, Any]) -> tuple[bool, int]:
    """Whether a worker was killed in a pool's life, and how often that was to be noticed."""
    killer, patient, failures = Killer(chance), chance.random() < 0.7, 0
    killer.start()
    try:
        pool = headrace.make(Walk, num_envs=ENVS, num_threads=WORKERS, seed=0, **options)
    except WorkerError:  # killed before it knew what it was to do
        killer.join()
        return killer.killed, 1
    with pool:
        failures += survive(pool, lambda: begin(pool))
        while True:
            over = killer.struck.is_set() or not patient
            failures += survive(pool, lambda: use(pool, chance))
            if over:
                break
    killer.join()
    return killer.killed, failures


def soak(args: SoakArgs) -> dict[str, Any]:
    """Make and close pools until so many have lost a worker."""
    chance, kinds = random.Random(args.seed), list(KINDS)
    kills, noticed, seconds = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0), []
    before, memory = {}, []
    for i in range(-WARM_UP, 10 * args.rounds):
        if i == 0:
            before = standing()
        kind, began = kinds[i % len(kinds)], time.monotonic()
        faulthandler.dump_traceback_later(HANGS, exit=True)
        killed, failures = one_round(chance, KINDS[kind])
        faulthandler.cancel_dump_traceback_later()
        if i >= 0:
            kills[kind] += killed
            noticed[kind] += failures
            seconds.append(time.monotonic() - began)
            memory.append(resident_and_threads()[0])
            if killed:
                show_progress(sum(kills.values()), args.rounds)
        if sum(kills.values()) == args.rounds:
            break
    after = standing()
    half = memory[len(memory) // 2 :]
    slope = np.polyfit(np.linspace(0, 1, len(half)), half, 1)[0]
    return {
        "kills": kills,
        "failures": noticed,
        "made": len(memory),
        "slowest_seconds": round(max(seconds), 2),
        "before": before,
        "after": after,
        "growth_second_half": float(slope),
        "passed": {name: after[name] <= count for name, count in before.items()} | {"memory": bool(slope < FLAT_BYTES)},
    }


def show_progress(kills: int, rounds: int) -> None:
    """A line that is written over on a terminal, and now and then one elsewhere."""
    if sys.stderr.isatty() or kills % 50 == 0:
        print(f"{kills} of {rounds} workers killed", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr)


def row(found: dict[str, Any]) -> dict[str, Any]:
    """What was there before and after."""
    counts = {name: f"{count} … {found['after'][name]}" for name, count in found["before"].items()}
    pools = f"{found['made']:,} pools, {sum(found['kills'].values()):,} lost a worker"
    growth = f"{found['growth_second_half'] / 2**20:.2f} MiB"
    return {"before … after": pools, **counts, "memory, growth in the second half": growth}


def main() -> None:
    args = tyro.cli(SoakArgs)
    found = soak(args)
    settings = {"rounds": args.rounds, "seed": args.seed, "num_envs": ENVS, "workers": WORKERS}
    record = heading("process_soak", "Pools whose workers are killed") | {"settings": settings, **found}
    tell(args.out, record | {"rows": [row(found)]})


if __name__ == "__main__":
    main()
