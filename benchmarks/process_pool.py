"""Environments that are Python classes: pools of processes beside others' vector environments.

The environments, their wrappers and the random actions are the same for all, and everything runs on the same cores. The
limit of what a task can do on them is their number times its environments in a plain loop, which runs, too.

``Busy`` computes for a known time, so that what a pool adds to it can be told. Where its steps take 0.1 to 10 ms, a
synchronous pool waits for the worker whose environments take longest, and an asynchronous one does not. By how much
that makes it faster at best follows from how the times are drawn, from the workers and from the environments of each
alone: it is computed, and told in the case's name.

PufferLib 3 takes part where it is installed. Its pins ask for Gymnasium 0.29 and NumPy 1, and its installation for
files from elsewhere; its vector classes work with the present ones. Unpack ``pufferlib`` from its source package into
an environment that has this one's packages and gym 0.26.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import Args, Comparison, Contender, measure, random_actions, stepping
from slow_envs import Busy

SETS = 16  # arrays of actions
CALM = 0.6  # seconds after which PufferLib's idle workers leave the cores alone
LEAST, MOST = 0.1, 10.0  # milliseconds
SB3 = "stable-baselines3 subproc"


@dataclass
class ProcessArgs(Args):
    """Pools of processes beside others."""

    repeats: int = 5
    """turns that each contender gets"""
    seconds: float = 1.0
    """length of one turn"""
    workers: int = 2
    """processes of our pool"""
    tasks: tuple[str, ...] = ("CartPole-v1", "gymnasium:LunarLander-v3", "minigrid:MiniGrid-Empty-8x8-v0")
    """ids of Gymnasium's registry; those whose package is not installed are left out"""


@contextmanager
def ours(source: Any, n: int, workers: int, batch: int = 0, **options: Any) -> Iterator[Contender]:
    settings: dict[str, Any] = {"num_envs": n, "batch_size": batch, "num_threads": workers, "seed": 0, **options}
    with headrace.make(source, executor="processes", **settings) as pool:
        actions = random_actions(pool.action_space, n, SETS)
        if not batch:
            pool.reset()
            yield stepping(pool.step, actions, n)
            return
        pool.async_reset()

        def turn(action: np.ndarray) -> None:
            ids = pool.recv()[4]["env_id"]
            pool.send(action[ids], ids)

        yield stepping(turn, actions, batch)


@contextmanager
def gymnasiums(kind: Any, maker: Callable[[], gym.Env], n: int) -> Iterator[Contender]:
    try:
        envs = kind([maker] * n)
    except ValueError:  # a space that Gymnasium's shared memory does not know, such as MiniGrid's text
        envs = kind([maker] * n, shared_memory=False)
    envs.reset(seed=0)
    yield stepping(envs.step, random_actions(envs.single_action_space, n, SETS), n)
    envs.close()


@contextmanager
def stable_baselines(maker: Callable[[], gym.Env], n: int) -> Iterator[Contender]:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    envs = SubprocVecEnv([maker] * n, start_method="fork")  # the other ways import PyTorch in each process
    envs.reset()
    yield stepping(envs.step, random_actions(envs.action_space, n, SETS), n)
    envs.close()


@contextmanager
def pufferlib(maker: Callable[[], gym.Env], n: int, workers: int) -> Iterator[Contender]:
    """PufferLib's vector classes: so many processes, or all in this one with 0."""
    from pufferlib import emulation, vector  # pyright: ignore[reportMissingImports]

    emulated = functools.partial(emulation.GymnasiumPufferEnv, env_creator=maker)
    settings = {"backend": vector.Multiprocessing, "num_workers": workers} if workers else {"backend": vector.Serial}
    envs = vector.make(emulated, num_envs=n, **settings)
    envs.reset(seed=0)
    run = stepping(envs.step, random_actions(envs.single_action_space, n, SETS), n)

    def turn(seconds: float) -> float:
        rate = run(seconds)
        time.sleep(CALM if workers else 0)
        return rate

    yield turn
    envs.close()


@contextmanager
def plain(maker: Callable[[], gym.Env], n: int) -> Iterator[Contender]:
    """What the environments themselves take: a loop over them in one process, which keeps no result."""
    envs = [maker() for _ in range(n)]
    for i, env in enumerate(envs):
        env.reset(seed=i)

    def step(actions: np.ndarray) -> None:
        for env, action in zip(envs, actions, strict=True):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    yield stepping(step, random_actions(envs[0].action_space, n, SETS), n)
    for env in envs:
        env.close()


def make(task: str) -> gym.Env:
    env = gym.make(task)
    if "MiniGrid" in task:  # whose missions are text, which not everybody has arrays for
        from minigrid.wrappers import ImgObsWrapper

        env = ImgObsWrapper(env)
    return env


@contextmanager
def beside_others(args: ProcessArgs, task: str, n: int) -> Iterator[Comparison]:
    """A task of Gymnasium's registry."""
    maker = functools.partial(make, task)
    with ExitStack() as stack:
        mine = stack.enter_context(ours(maker, n, args.workers))
        peers = {
            "gymnasium sync": stack.enter_context(gymnasiums(gym.vector.SyncVectorEnv, maker, n)),
            "gymnasium async": stack.enter_context(gymnasiums(gym.vector.AsyncVectorEnv, maker, n)),
        }
        wanted = {"gymnasium sync": 1.5, "gymnasium async": 1.5, "pufferlib": 1.5, "pufferlib serial": 1.5}
        if task == "CartPole-v1":
            peers[SB3] = stack.enter_context(stable_baselines(maker, n))
            wanted = {"gymnasium sync": 1.4, "gymnasium async": 25.0, SB3: 10.0, "pufferlib": 1, "pufferlib serial": 1}
        if importlib.util.find_spec("pufferlib"):
            peers["pufferlib"] = stack.enter_context(pufferlib(maker, n, args.workers))
            peers["pufferlib serial"] = stack.enter_context(pufferlib(maker, n, 0))
        limit = {"a plain loop, one core": stack.enter_context(plain(maker, n))}
        yield Comparison(f"{task} N={n}", mine, peers, limit, wanted)


@contextmanager
def one_millisecond(args: ProcessArgs) -> Iterator[Comparison]:
    """Computation of a known length: the number of cores times one of them is the limit."""
    loop = gymnasiums(gym.vector.SyncVectorEnv, functools.partial(Busy, 1.0, 1.0), 1)
    with ours(Busy, 16, args.workers, least=1.0, most=1.0) as mine, loop as one:
        name = "one environment in a loop"
        yield Comparison("1 ms of computation N=16", mine, {name: one}, wanted={name: 0.95 * args.workers})


@contextmanager
def uneven(args: ProcessArgs, n: int, batch: int, evenly: bool, wanted: float = 0.0) -> Iterator[Comparison]:
    """Steps that differ; wanted is 0.95 of what is possible where nothing else is said."""
    options, same = {"least": LEAST, "most": MOST, "evenly": evenly}, "the same, synchronous"
    best = best_ratio(n, args.workers, evenly)
    name = f"{LEAST:g}-{MOST:g} ms {'evenly' if evenly else 'log'} N={n}, limit {best:.2f} x"
    with ours(Busy, n, args.workers, batch, **options) as mine, ours(Busy, n, args.workers, **options) as other:
        yield Comparison(name, mine, {same: other}, wanted={same: wanted or round(0.95 * best, 2)})


def best_ratio(n: int, workers: int, evenly: bool) -> float:
    """A synchronous step's time, which is the busiest worker's, over the mean of all workers'."""
    busy, rng = Busy(LEAST, MOST, evenly), np.random.default_rng(0)
    work = busy.draw(rng, (20_000, workers, n // workers)).sum(2)
    return float(work.max(1).mean() / work.mean())


def installed(task: str) -> bool:
    package = {"gymnasium:LunarLander-v3": "Box2D"}.get(task, task.partition(":")[0] if ":" in task else "gymnasium")
    return importlib.util.find_spec(package) is not None


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def comparisons(args: ProcessArgs) -> Iterator[Comparison]:
    """Tasks beside other libraries, then environments that compute for a known time."""
    if not importlib.util.find_spec("pufferlib"):
        tell("PufferLib is not installed, so it is left out.")
    for task in args.tasks:
        if not installed(task):
            tell(f"{task} is left out: its package is not installed.")
    cases = [beside_others(args, task, 64) for task in args.tasks if installed(task)]
    cases += [one_millisecond(args), uneven(args, 4, 2, evenly=False, wanted=1.3)]
    cases += [uneven(args, 4, 2, evenly=True), uneven(args, 16, 4, evenly=True)]
    for case in cases:
        with case as comparison:
            tell(comparison.name)
            yield comparison


if __name__ == "__main__":
    chosen = tyro.cli(ProcessArgs)
    measure("process_pool", "Python environments in processes", comparisons(chosen), chosen)
