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
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envpool
import numpy as np
import tyro

import headrace
from common import Args, Case, Report, alternate, in_child, random_actions, spread, stepping

ENVPOOL, BARE = "envpool", "MuJoCo alone"
HEAVY = ("Ant-v5", "HalfCheetah-v5", "Humanoid-v5", "WalkerWalk-v1")
LIGHT = ("InvertedPendulum-v5", "Hopper-v5")
SIZES = (8, 64, 1024)
WARM = 8_000  # agent steps of all environments together, but at least 30 of each
REPLAYED = 4_096
AT_LEAST = {ENVPOOL: 1.2, BARE: 0.95}
MEMORY = "Humanoid-v5"
SMALL, LARGE = 64, 1024
COMPARED_STEPS = 8  # of each environment, from the same states on


@dataclass
class MujocoArgs(Args):
    """MuJoCo's tasks beside EnvPool and MuJoCo alone."""

    tasks: tuple[str, ...] = (*HEAVY, *LIGHT)
    """names of tasks; what the JSON file says of other cases stays"""
    sizes: tuple[int, ...] = SIZES
    """environments of a pool"""
    num_threads: int = 2
    """threads of every contender"""
    compare_sizes: bool = True
    """also compare pools of 64 and 1024 environments that do the same work"""
    memory: bool = True
    """also measure the peak memory of a large pool of Humanoid"""


def contenders(task: str, num_envs: int, threads: int) -> dict[str, Callable[[float], float]]:
    """Pools of one task in the middle of their episodes, and MuJoCo alone, by name."""
    sizes: dict[str, Any] = {"num_envs": num_envs, "num_threads": threads, "seed": 0}
    ours, peer = headrace.make(task, **sizes), envpool.make_gymnasium(task, **sizes)
    steps = max(4, REPLAYED // num_envs)
    actions = random_actions(ours.action_space, num_envs, steps)
    runs = {}
    for name, pool in (("headrace", ours), (ENVPOOL, peer)):
        pool.reset()
        for i in range(max(30, WARM // num_envs)):
            pool.step(actions[i % steps])
        runs[name] = stepping(pool.step, actions, num_envs)
    runs[BARE] = mujoco_alone(ours, actions, threads)
    return runs


def mujoco_alone(pool: Any, actions: list[np.ndarray], threads: int) -> Callable[[float], float]:
    """What MuJoCo does in these steps of the pool, again and again."""
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
            taken += executor.bare_seconds(states, controls, threads)
            rounds += 1
        return rounds * steps / (taken * advanced / steps)

    return run


def compared_sizes(task: str, args: MujocoArgs) -> dict[str, Any]:
    """Agent steps a second of a small and a large pool, in turns, and the large one's as multiples of the small's."""
    pools = {n: headrace.make(task, num_envs=n, num_threads=args.num_threads, seed=0) for n in (SMALL, LARGE)}
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

    rates: dict[int, list[float]] = {SMALL: [], LARGE: []}
    for turn in range(args.repeats):
        taken, rounds = {SMALL: 0.0, LARGE: 0.0}, 0
        while sum(taken.values()) < 2 * args.seconds:
            for size in (SMALL, LARGE) if (turn + rounds) % 2 else (LARGE, SMALL):
                taken[size] += seconds_of(size)
            rounds += 1
        for size, rate in rates.items():
            rate.append(round(rounds * LARGE * COMPARED_STEPS / taken[size], 1))
    ratios = [round(b / a, 3) for a, b in zip(rates[SMALL], rates[LARGE], strict=True)]
    median = round(statistics.median(ratios), 3)
    return {
        "rates": {str(size): rate for size, rate in rates.items()},
        "ratios": ratios,
        "median": median,
        "spread": round(spread(ratios), 3),
        "passed": median >= 1,
    }


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


def earlier(record: dict[str, Any], names: set[str]) -> list[Case]:
    """The cases that an earlier run has left, but for those of these names."""
    wanted = ("name", "rates", "at_least", "unit", "frame_skip")
    return [Case(**{key: case[key] for key in wanted}) for case in record.get("cases", ()) if case["name"] not in names]


def in_order(case: Case) -> tuple[int, int]:
    task, _, size = case.name.partition(" N=")
    return (*HEAVY, *LIGHT, task).index(task), int(size)


def main() -> None:
    if "--child" in sys.argv:
        print(json.dumps(peak_memory(sys.argv[2], int(sys.argv[3]))))
        return
    args = tyro.cli(MujocoArgs)
    settings = {"num_threads": args.num_threads, "repeats": args.repeats, "seconds": args.seconds}
    report = Report("mujoco_pool", "MuJoCo, random actions, resets included", settings)
    path = args.out / f"{report.name}.json"
    before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for task in args.tasks:
        for num_envs in args.sizes:
            rates = alternate(contenders(task, num_envs, args.num_threads), args)
            least = AT_LEAST if task in HEAVY else {ENVPOOL: AT_LEAST[ENVPOOL]}
            frame_skip = headrace.make_spec(task).frame_skip
            report.cases.append(Case(f"{task} N={num_envs}", rates, least, frame_skip=frame_skip))
    report.cases += earlier(before, {case.name for case in report.cases})
    report.cases.sort(key=in_order)
    report.extra["sizes"] = sizes = before.get("sizes", {})
    if args.compare_sizes and {SMALL, LARGE} <= set(args.sizes):
        for task in (task for task in HEAVY if task in args.tasks):
            sizes[task] = found = compared_sizes(task, args)
            print(f"{task}: N={LARGE} is {found['median']:.2f} x N={SMALL}, spread {found['spread']:.0%}")
    report.extra["peak_memory_mib"] = before.get("peak_memory_mib", {})
    if args.memory:
        report.extra["peak_memory_mib"] = found = {
            name: in_child(__file__, "--child", name, str(SIZES[-1])) for name in ("headrace", ENVPOOL)
        }
        for name, mib in found.items():
            print(f"{MEMORY} N={SIZES[-1]}, {name}: {mib['peak'] - mib['before']:.0f} MiB for the pool")
    report.write(args.out)


if __name__ == "__main__":
    main()
