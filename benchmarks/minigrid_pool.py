"""Tasks of MiniGrid and BabyAI at 1,024 environments, beside EnvPool and the package's environments in processes.

Random actions, precomputed. All observe the agent's view, direction and mission in every step. The package's
environments are fewer, as each has a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import envpool
import gymnasium as gym
import minigrid  # noqa: F401  # registers its environments
import numpy as np
import tyro
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

import headrace
from common import Args, Comparison, measure, random_steps

LEAST = {"envpool": 20.0, "gymnasium async": 300.0}
ACTION_SETS = 64


@dataclass
class MiniGridArgs(Args):
    """MiniGrid's tasks beside other libraries."""

    num_threads: int = 2
    """threads of the pools"""
    num_envs: int = 1024
    """environments of the pools"""
    processes: int = 16
    """environments of Gymnasium's `AsyncVectorEnv`"""
    tasks: tuple[str, ...] = (
        "MiniGrid-DoorKey-8x8-v0",
        "MiniGrid-KeyCorridorS3R3-v0",
        "MiniGrid-Empty-8x8-v0",
        "BabyAI-GoToLocal-v0",
    )
    """names of tasks"""


def comparisons(args: MiniGridArgs) -> Iterator[Comparison]:
    """One for each task."""
    n = args.num_envs
    sizes: dict[str, Any] = {"num_envs": n, "num_threads": args.num_threads, "seed": 0}
    for task in args.tasks:
        with ExitStack() as stack:
            mine = stack.enter_context(headrace.make(task, **sizes))
            makers = [lambda task=task: gym.make(task, disable_env_checker=True)] * args.processes
            processes = AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP, shared_memory=False)
            stack.callback(processes.close)
            theirs = envpool.make_gymnasium(task, **sizes)
            peers = {
                "envpool": random_steps(theirs, n, ACTION_SETS, np.int32),
                "gymnasium async": random_steps(processes, args.processes, ACTION_SETS),
            }
            yield Comparison(f"{task} N={n}", random_steps(mine, n, ACTION_SETS), peers, wanted=LEAST)


if __name__ == "__main__":
    chosen = tyro.cli(MiniGridArgs)
    measure("minigrid_pool", "MiniGrid", comparisons(chosen), chosen)
