"""The lunar lander and the walker at 64 environments, and the racing car with its pictures at 16, beside EnvPool and
Gymnasium's environments in processes.

Random actions, precomputed. Walkers lie on the ground for most of it, which takes longest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import envpool
import gymnasium as gym
import numpy as np
import tyro
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

import headrace
from common import Args, Comparison, measure, random_steps

TASKS = ("LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3")
RACING = "CarRacing-v3"
LEAST = {"envpool": 1.4, "gymnasium async": 20.0}
ACTION_SETS = 64


@dataclass
class Box2DArgs(Args):
    """Tasks on Box2D beside other libraries."""

    num_threads: int = 2
    """threads of the pools"""
    num_envs: int = 64
    """environments of the pools"""
    num_cars: int = 16
    """environments of the pools of cars"""


def comparisons(args: Box2DArgs) -> Iterator[Comparison]:
    """One for each task."""
    for task in (*TASKS, RACING):
        n = args.num_cars if task == RACING else args.num_envs
        sizes: dict[str, Any] = {"num_envs": n, "num_threads": args.num_threads, "seed": 0}
        with ExitStack() as stack:
            mine = stack.enter_context(headrace.make(task, **sizes))
            discrete = isinstance(mine.action_space, gym.spaces.Discrete)
            theirs = envpool.make_gymnasium(task, **sizes)
            makers = [lambda task=task: gym.make(task)] * n
            processes = AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
            stack.callback(processes.close)
            peers = {
                "envpool": random_steps(theirs, n, ACTION_SETS, np.int32 if discrete else None),
                "gymnasium async": random_steps(processes, n, ACTION_SETS),
            }
            yield Comparison(f"{task} N={n}", random_steps(mine, n, ACTION_SETS), peers, wanted=LEAST)


if __name__ == "__main__":
    chosen = tyro.cli(Box2DArgs)
    measure("box2d_pool", "Box2D", comparisons(chosen), chosen)
