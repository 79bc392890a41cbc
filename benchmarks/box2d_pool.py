"""The lunar lander and the walker at 64 environments, and the racing car with its pictures at 16, beside EnvPool and
Gymnasium's environments in processes.

Random actions, precomputed. Walkers lie on the ground for most of it, which takes longest. Of the lander and the walker
one thread is also beside Box2D alone: the time within its steps, in Gymnasium's worlds, without what a task adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest.mock import patch

import Box2D
import envpool
import gymnasium as gym
import numpy as np
import tyro
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

import headrace
from common import Args, Comparison, Contender, measure, random_steps

TASKS = ("LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3")
RACING = "CarRacing-v3"
LEAST = {"envpool": 1.4, "gymnasium async": 20.0}
ALONE = {"Box2D alone": 0.9}
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
        if task != RACING:
            with headrace.make(task, num_envs=n, num_threads=1, seed=0) as mine:
                limit = {"Box2D alone": box2d_alone(task)}
                yield Comparison(f"{task}, a thread", random_steps(mine, n, ACTION_SETS), limit=limit, wanted=ALONE)


def box2d_alone(task: str) -> Contender:
    """Steps a second of one of Gymnasium's worlds within Box2D, where a call from Python takes no time.

    Nobody in Python hears of contacts, which would take long: an episode ends when the body touches something.
    """
    env: Any = gym.make(task).unwrapped
    env.action_space.seed(0)
    step, took = Box2D.b2World.Step, 0.0

    def timed(*args: Any) -> None:
        nonlocal took
        began = time.perf_counter()
        step(*args)
        took = time.perf_counter() - began

    def call() -> float:
        timed(Box2D.b2World(), 0.02, 180, 60)
        return took

    def run(seconds: float) -> float:
        inside, steps, over = 0.0, 0, True
        nothing = median(call() for _ in range(1000))
        end = time.perf_counter() + seconds
        with patch.object(Box2D.b2World, "Step", timed):
            while time.perf_counter() < end:
                if over:
                    env.reset()
                    env.world.contactListener = None
                _, _, over, *_ = env.step(env.action_space.sample())
                inside, steps = inside + took - nothing, steps + 1
                body = env.lander if "Lander" in task else env.hull
                over = over or any(edge.contact.touching for edge in body.contacts)
        return steps / inside

    return run


if __name__ == "__main__":
    chosen = tyro.cli(Box2DArgs)
    measure("box2d_pool", "Box2D", comparisons(chosen), chosen)
