"""MuJoCo's tasks through a pool, beside EnvPool and beside MuJoCo alone.

Two threads for all, random actions that change with every step, next-step autoreset, each
environment in the middle of an episode of its own. MuJoCo alone replays, in C++, the states
and actions that our pool went through, `mj_step` and what the task needs after it
(`mj_rnePostConstraint`, or the kinematics of the new state), on as many threads with one
`mjData` each: no reset, no reward, no observation, no Python. The steps in which a pool resets
count for it as done in no time.

Whether a large pool is as fast as a small one is asked of pools that do the same work: the large one's
environments are copies of the small one's, from the same states on with the same actions, in turns.

EnvPool has a MuJoCo of its own inside; ours is the installed package's. Its `mj_step` may be
slower or faster, which no pool can change.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envpool
import numpy as np
import tyro

import headrace
from common import OURS, Args, Comparison, Contender, in_child, measure, random_actions, stepping

ENVPOOL, BARE = "envpool", "MuJoCo alone"
HEAVY = ("Ant-v5", "HalfCheetah-v5", "Humanoid-v5", "WalkerWalk-v1")
LIGHT = ("InvertedPendulum-v5", "Hopper-v5")
SIZES = (8, 64, 1024)
WARM = 8_000  # agent steps of all environments together, but at least 30 of each
REPLAYED = 4_096
AT_LEAST = {ENVPOOL: 1.2, BARE: 0.95}
MEMORY = "Humanoid-v5"
SMALL, LARGE = 64, 1024
SAME = f"a pool of {SMALL} at the same work"
COMPARED_STEPS = 8  # of each environment, from the same states on


@dataclass
class MujocoArgs(Args):
    """MuJoCo's tasks beside EnvPool and MuJoCo alone."""

    tasks: tuple[str, ...] = (*HEAVY, *LIGHT)
    """names of tasks"""
    sizes: tuple[int, ...] = SIZES
    """environments of a pool"""
    physics: str = "mujoco"
    """physics of our pools and of the loop without a pool: mujoco or lanes"""
    num_threads: int = 2
    """threads of every contender"""
    compare_sizes: bool = True
    """also compare pools of 64 and 1024 environments that do the same work"""
    memory: bool = True
    """also measure the peak memory of a large pool of Humanoid"""


def contenders(task: str, num_envs: int, threads: int, physics: str) -> dict[str, Contender]:
    """Pools of one task in the middle of their episodes, and MuJoCo alone, by name."""
    sizes: dict[str, Any] = {"num_envs": num_envs, "num_threads": threads, "seed": 0}
    ours, peer = headrace.make(task, **sizes, physics=physics), envpool.make_gymnasium(task, **sizes)
    steps = max(4, REPLAYED // num_envs)
    actions = random_actions(ours.action_space, num_envs, steps)
    runs = {}
    for name, pool in (("headrace", ours), (ENVPOOL, peer)):
        pool.reset()
        for i in range(max(30, WARM // num_envs)):
            pool.step(actions[i % steps])
        runs[name] = stepping(pool.step, actions, num_envs)
    runs[BARE] = mujoco_alone(ours, actions, threads, physics)
    return runs


def mujoco_alone(pool: Any, actions: list[np.ndarray], threads: int, physics: str) -> Contender:
    """What physics does in these steps of the pool, again and again."""
    executor = pool._executor
    states, advanced = [], 0
    for action in actions:
        states.append(executor.record())
        advanced += int((pool.step(action)[4]["elapsed_step"] > 0).sum())
    states, controls = np.stack(states), np.stack(actions)
    steps = controls.shape[0] * controls.shape[1]

    def run(seconds: float) -> float:
        taken, rounds = 0.0, 0
        while taken < seconds:
            taken += executor.bare_seconds(states, controls, threads, physics)
            rounds += 1
        return rounds * steps / (taken * advanced / steps)

    return run


def beside_a_small_one(task: str, args: MujocoArgs) -> Comparison:
    """A large pool beside a small one, which does the same work in parts."""
    same: dict[str, Any] = {"num_threads": args.num_threads, "seed": 0, "physics": args.physics}
    pools = {n: headrace.make(task, num_envs=n, **same) for n in (SMALL, LARGE)}
    small, large = pools.values()
    copies = LARGE // SMALL
    actions = {SMALL: random_actions(small.action_space, SMALL, COMPARED_STEPS)}
    actions[LARGE] = [np.tile(action, (copies, 1)) for action in actions[SMALL]]
    for pool in (small, large):
        pool.reset()
    for action in random_actions(small.action_space, SMALL, WARM // SMALL):
        small.step(action)
    states = small.save_state()

    def seconds_of(size: int) -> float:
        """What the steps take from these states on, of all environments together `LARGE` times."""
        pool, taken = pools[size], 0.0
        for _ in range(LARGE // size):
            pool.load_state(None, states * (size // SMALL))
            start = time.perf_counter()
            for action in actions[size]:
                pool.step(action)
            taken += time.perf_counter() - start
        return taken

    rates: dict[str, list[float]] = {OURS: [], SAME: []}
    for turn in range(args.repeats):
        taken, rounds = {SMALL: 0.0, LARGE: 0.0}, 0
        while sum(taken.values()) < 2 * args.seconds:
            for size in (SMALL, LARGE) if (turn + rounds) % 2 else (LARGE, SMALL):
                taken[size] += seconds_of(size)
            rounds += 1
        for name, size in ((SAME, SMALL), (OURS, LARGE)):
            rates[name].append(round(rounds * LARGE * COMPARED_STEPS / taken[size], 1))
    return Comparison(f"{task} N={LARGE} beside N={SMALL}", rates=rates, wanted={SAME: 1.0})


def peak() -> float:
    """The most MiB that this process ever had in memory (Linux); unlike `getrusage`, nothing of its parent's."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def peak_memory(contender: str, num_envs: int) -> dict[str, float]:
    """Peak resident MiB of this process before a pool of Humanoid was made, and after it has stepped."""
    before = peak()
    make: Any = headrace.make if contender == "headrace" else envpool.make_gymnasium
    pool = make(MEMORY, num_envs=num_envs, num_threads=2, seed=0)
    pool.reset()
    for action in random_actions(pool.action_space, num_envs, 20):
        pool.step(action)
    return {"before": round(before, 1), "peak": round(peak(), 1)}


def comparisons(args: MujocoArgs, extra: dict[str, Any]) -> Iterator[Comparison]:
    """Every task with every number of environments, then large pools beside small ones, then memory."""
    for task in args.tasks:
        wanted = AT_LEAST if task in HEAVY else {ENVPOOL: AT_LEAST[ENVPOOL]}
        for n in args.sizes:
            peers = contenders(task, n, args.num_threads, args.physics)
            skip = headrace.make_spec(task).frame_skip
            yield Comparison(f"{task} N={n}", peers.pop(OURS), peers, wanted=wanted, frame_skip=skip)
    if args.compare_sizes:
        for task in (task for task in HEAVY if task in args.tasks):
            yield beside_a_small_one(task, args)
    if args.memory:
        found = {name: in_child(__file__, "--child", name, str(LARGE)) for name in (OURS, ENVPOOL)}
        extra |= {"peak_memory_mib": found, "note": note(found)}


def note(memory: dict[str, dict[str, float]]) -> str:
    """What a large pool takes, in a sentence."""
    mib = (f"{name} {found['peak'] - found['before']:,.0f} MiB" for name, found in memory.items())
    return f"Peak memory of a pool of {MEMORY}, N={LARGE:,}: {', '.join(mib)}."


if __name__ == "__main__":
    if "--child" in sys.argv:
        print(json.dumps(peak_memory(sys.argv[2], int(sys.argv[3]))))
    else:
        chosen, found = tyro.cli(MujocoArgs), dict[str, Any]()
        measure("mujoco_pool", "MuJoCo", comparisons(chosen, found), chosen, found)
