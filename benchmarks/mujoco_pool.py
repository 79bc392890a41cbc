"""MuJoCo's tasks through a pool, beside EnvPool, MuJoCo's own batches and what the physics alone takes.

Two threads for all, random actions that change with every step, next-step autoreset, each environment in the middle of
an episode of its own. Ours has the physics that is the task's default; where that is lanes, a pool with
``physics="mujoco"`` takes part, and where lanes are for those who ask (as with the solver PGS), they have a case of
their own. Three do less than a pool: no reset, no reward, no observation. They replay the states and actions that our
pool went through, and the steps in which a pool resets count for them as done in no time:

- MuJoCo alone: in C++, `mj_step` and what the task needs after it (`mj_rnePostConstraint`, or the kinematics of the
  new state), on as many threads with one `mjData` each.
- Bare lanes: the same in lanes.
- `mujoco.batch`: MuJoCo's own `Batch` from Python, which is given the states and the controls of each step, and
  computes nothing after the last `mj_step` of a step.

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
from mujoco.batch import Batch

import headrace
from common import OURS, Args, Comparison, Contender, exchange, in_child, measure, random_actions, stepping
from headrace.pool.executors.mujoco.lanes import LANES, MUJOCO
from headrace.pool.executors.mujoco.memory import state_components

ENVPOOL, BATCH, OTHER = "envpool", "mujoco.batch", "physics=mujoco"
BARE = {MUJOCO: "MuJoCo alone", LANES: "bare lanes"}
HEAVY = ("Ant-v5", "HalfCheetah-v5", "Humanoid-v5", "WalkerWalk-v1")
OTHERS = (
    "Hopper-v5", "Walker2d-v5", "InvertedPendulum-v5", "Reacher-v5", "Pusher-v5", "Swimmer-v5",
    "CheetahRun-v1", "HopperHop-v1", "HumanoidRun-v1",
)  # fmt: skip
SIZES = (64, 1024)
WARM = 8_000  # agent steps of all environments together, but at least 30 of each
REPLAYED = 2_048  # the same, but at least 4 of each
AT_LEAST = {ENVPOOL: 1.2}
OF_BARE = {MUJOCO: {BARE[MUJOCO]: 0.95}, LANES: {BARE[LANES]: 0.85}}
MEMORY = "Humanoid-v5"
ASYNC, ASYNC_ENVS, ASYNC_BATCH = "Ant-v5", 64, 16
SMALL, LARGE = 64, 1024
SAME = f"a pool of {SMALL} at the same work"
COMPARED_STEPS = 8  # of each environment, from the same states on
STATE = {"qpos": "qpos", "qvel": "qvel", "act": "act", "warmstart": "qacc_warmstart"}
"""what a batch is given of a state: MuJoCo's name of the component → of the field"""


@dataclass
class MujocoArgs(Args):
    """MuJoCo's tasks beside EnvPool, MuJoCo's batches and physics alone."""

    tasks: tuple[str, ...] = (*HEAVY, *OTHERS)
    """names of tasks"""
    sizes: tuple[int, ...] = SIZES
    """environments of a pool"""
    physics: str = ""
    """physics of our pools, mujoco or lanes; each task's default where empty"""
    num_threads: int = 2
    """threads of every contender"""
    asynchronous: bool = True
    """also measure asynchronous pools of Ant, 64 environments of which 16 are received at a time"""
    compare_sizes: bool = True
    """also compare pools of 64 and 1024 environments that do the same work"""
    memory: bool = True
    """also measure the peak memory of a large pool of Humanoid"""


def warmed(pool: Any, actions: list[np.ndarray]) -> Any:
    """The pool in the middle of its episodes."""
    pool.reset()
    for i in range(max(30, WARM // pool.num_envs)):
        pool.step(actions[i % len(actions)])
    return pool


def contenders(task: str, num_envs: int, threads: int, physics: str) -> dict[str, Contender]:
    """Pools of one task in the middle of their episodes, and what does less than a pool, by name."""
    sizes: dict[str, Any] = {"num_envs": num_envs, "num_threads": threads, "seed": 0}
    ours = headrace.make(task, **sizes, physics=physics)
    actions = random_actions(ours.action_space, num_envs, max(4, REPLAYED // num_envs))
    pools: dict[str, Any] = {OURS: warmed(ours, actions)}
    if physics == LANES:
        pools[OTHER] = headrace.make(task, **sizes, physics=MUJOCO)
        pools[OTHER].reset()
        pools[OTHER].load_state(None, ours.save_state())
    if task in envpool.list_all_envs():
        pools[ENVPOOL] = warmed(envpool.make_gymnasium(task, **sizes), actions)
    runs = {name: stepping(pool.step, actions, num_envs) for name, pool in pools.items()}
    return runs | physics_alone(ours, actions, threads, physics)


def physics_alone(pool: Any, actions: list[np.ndarray], threads: int, physics: str) -> dict[str, Contender]:
    """What physics does in these steps of the pool, again and again, by who does it."""
    executor = pool._executor
    states, advanced = [], 0
    for action in actions:
        states.append(executor.record())
        advanced += int((pool.step(action)[4]["elapsed_step"] > 0).sum())
    states, controls = np.stack(states), np.stack(actions)
    steps = controls.shape[0] * controls.shape[1]
    batch = Batch(executor.model, pool.num_envs, threads)
    ctrl, skip = batch.bind("ctrl"), pool.spec.frame_skip
    each = [state_components(executor.model, rows, executor._signature) for rows in states]
    given = [[(batch.bind(field), row[name]) for name, field in STATE.items() if name in row] for row in each]

    def batch_seconds() -> float:
        start = time.perf_counter()
        for state, control in zip(given, controls, strict=True):
            for field, values in state:
                field[:] = values
            ctrl[:] = control
            batch.step(nstep=skip)
        return time.perf_counter() - start

    def replaying(seconds_of_round: Any) -> Contender:
        def run(seconds: float) -> float:
            taken, rounds = 0.0, 0
            while taken < seconds:
                taken += seconds_of_round()
                rounds += 1
            return rounds * steps / (taken * advanced / steps)

        return run

    bare = dict.fromkeys((physics, MUJOCO))
    alone = {BARE[p]: replaying(lambda p=p: executor.bare_seconds(states, controls, threads, p)) for p in bare}
    return {BATCH: replaying(batch_seconds), **alone}


def asynchronous(args: MujocoArgs) -> Comparison:
    """Pools that receive whoever is done first."""
    sizes: dict[str, Any] = {"num_envs": ASYNC_ENVS, "batch_size": ASYNC_BATCH, "num_threads": args.num_threads}
    ours = headrace.make(ASYNC, **sizes, seed=0, physics=args.physics)
    pools = {OURS: ours, ENVPOOL: envpool.make_gymnasium(ASYNC, **sizes, seed=0)}
    if ours.spec.options["physics"] == LANES:
        pools[OTHER] = headrace.make(ASYNC, **sizes, seed=0, physics=MUJOCO)
    actions = random_actions(ours.action_space, ASYNC_BATCH, REPLAYED // ASYNC_BATCH)
    runs: dict[str, Contender] = {}
    for name, pool in pools.items():
        pool.async_reset()
        step = exchange(pool)
        for action in (actions * 2)[: WARM // ASYNC_BATCH]:
            step(action)
        runs[name] = stepping(step, actions, ASYNC_BATCH)
    name = f"{ASYNC} async {ASYNC_ENVS}/{ASYNC_BATCH}"
    return Comparison(name, runs.pop(OURS), runs, wanted=AT_LEAST, frame_skip=ours.spec.frame_skip)


def beside_a_small_one(task: str, args: MujocoArgs) -> Comparison:
    """A large pool beside a small one, which does the same work in parts."""
    same: dict[str, Any] = {"num_threads": args.num_threads, "seed": 0, "physics": args.physics}
    pools = {n: headrace.make(task, num_envs=n, **same) for n in (SMALL, LARGE)}
    small, large = pools.values()
    actions = {SMALL: random_actions(small.action_space, SMALL, COMPARED_STEPS)}
    actions[LARGE] = [np.tile(action, (LARGE // SMALL, 1)) for action in actions[SMALL]]
    large.reset()
    states = warmed(small, random_actions(small.action_space, SMALL, WARM // SMALL)).save_state()

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


def peak_memory(contender: str, num_envs: int) -> float:
    """MiB that a pool of Humanoid, made and stepped, adds to the most that this process ever had in memory."""

    def peak() -> float:  # Linux; unlike `getrusage`, nothing of its parent's
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) / 1024

    before = peak()
    make: Any = headrace.make if contender == OURS else envpool.make_gymnasium
    pool = make(MEMORY, num_envs=num_envs, num_threads=2, seed=0)
    pool.reset()
    for action in random_actions(pool.action_space, num_envs, 20):
        pool.step(action)
    return round(peak() - before, 1)


def comparisons(args: MujocoArgs, extra: dict[str, Any]) -> Iterator[Comparison]:
    """Every task with every number of environments, asynchronous pools, large pools beside small ones, then memory."""
    for task in args.tasks:
        spec = headrace.make_spec(task, physics=args.physics)
        usual = spec.options["physics"]
        cases = {task: usual} | ({} if args.physics or usual == LANES else {f"{task} physics=lanes": LANES})
        for n in args.sizes:
            for name, physics in cases.items():
                wanted = AT_LEAST | (OF_BARE[physics] if task in HEAVY else {})
                peers = contenders(task, n, args.num_threads, physics)
                yield Comparison(f"{name} N={n}", peers.pop(OURS), peers, wanted=wanted, frame_skip=spec.frame_skip)
    if args.asynchronous:
        yield asynchronous(args)
    if args.compare_sizes:
        for task in (task for task in HEAVY if task in args.tasks):
            yield beside_a_small_one(task, args)
    if args.memory:
        found = {name: in_child(__file__, "--child", name, str(LARGE)) for name in (OURS, ENVPOOL)}
        told = ", ".join(f"{name} {mib:,.0f} MiB" for name, mib in found.items())
        note = f"Peak memory of a pool of {MEMORY}, N={LARGE:,}: {told}."
        extra |= {"peak_memory_mib": found, "note": note}


if __name__ == "__main__":
    if "--child" in sys.argv:
        print(json.dumps(peak_memory(sys.argv[2], int(sys.argv[3]))))
    else:
        chosen, found = tyro.cli(MujocoArgs), dict[str, Any]()
        measure("mujoco_pool", "MuJoCo", comparisons(chosen, found), chosen, found)
