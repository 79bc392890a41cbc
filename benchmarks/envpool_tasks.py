"""EnvPool's tasks behind Headrace's pool, beside EnvPool itself.

Random actions, precomputed. Both step the same task in EnvPool's threads: the ratio is what checks of actions, copies
into batches and modes of autoreset cost. "next step" is EnvPool's own mode; "same step" is Headrace's default.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import envpool
import gymnasium as gym
import tyro

import headrace
from common import Args, Comparison, measure, random_steps

TASKS = (
    "CartPole-v1",
    "Snake-v1",
    "MiniGrid-DoorKey-8x8-v0",
    "BabyAI-GoToLocal-v0",
    "Game2048-v1",
    "FetchReach-v4",
    "HandManipulateBlock-v1",
    "WalkerWalk-v1",
    "Pong-v5",
    "CarRacing-v3",
)
LEAST = {"envpool": 0.95}


@dataclass
class EnvPoolArgs(Args):
    """EnvPool's tasks with and without Headrace around them."""

    seconds: float = 1.0
    """length of one turn"""
    num_threads: int = 2
    """threads of the pools"""
    num_envs: int = 64
    """environments of the pools"""
    tasks: tuple[str, ...] = TASKS
    """EnvPool's tasks"""


def comparisons(args: EnvPoolArgs) -> Iterator[Comparison]:
    """One for each task."""
    n = args.num_envs
    sizes: dict[str, Any] = {"num_envs": n, "num_threads": args.num_threads, "seed": 0}
    for task in args.tasks:
        with ExitStack() as stack:
            pools = [
                stack.enter_context(headrace.make(f"envpool:{task}", autoreset=mode, **sizes))
                for mode in ("next_step", "same_step")
            ]
            theirs = envpool.make_gymnasium(task, **sizes)
            dtype = None if isinstance(theirs.action_space, gym.spaces.Box) else theirs.action_space.dtype
            ours, same = (random_steps(pool, n) for pool in pools)
            peers = {"envpool": random_steps(theirs, n, dtype=dtype), "headrace, same step": same}
            yield Comparison(f"{task} N={n}", ours, peers, wanted=LEAST)


if __name__ == "__main__":
    chosen = tyro.cli(EnvPoolArgs)
    measure("envpool_tasks", "EnvPool's tasks", comparisons(chosen), chosen)
