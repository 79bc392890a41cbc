"""CartPole-v1 at 1, 8, 64 and 1,024 environments: what a step costs when the physics is nearly free.

Random actions, precomputed, that change with every step, in each contender's own
integer type; next-step autoreset everywhere; observations read by nobody.
At 1,024 Gymnasium's NumPy CartPole takes part as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import envpool
import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import Args, Case, Report, alternate, random_actions, stepping

TASK = "CartPole-v1"
SIZES = {1: 8.0, 8: 8.0, 64: 15.0, 1024: 20.0}
"""environments → the least ratio to EnvPool"""
GYMNASIUM_AT, GYMNASIUM_LEAST = 1024, 1.5
ACTION_SETS = 128


@dataclass
class CartPoleArgs(Args):
    """CartPole-v1 beside EnvPool and Gymnasium."""

    num_threads: int = 2
    """threads of a pool, ours and EnvPool's"""
    sizes: tuple[int, ...] = tuple(SIZES)
    """numbers of environments"""


def contenders(n: int, threads: int) -> dict[str, Callable[[float], float]]:
    """One ready pool of n environments for each contender."""
    ours: Any = headrace.make(TASK, num_envs=n, num_threads=threads, seed=0)
    peer = envpool.make_gymnasium(TASK, num_envs=n, num_threads=min(threads, n), seed=0)
    ours.reset()
    peer.reset()
    space = ours.action_space
    runs = {
        "headrace": stepping(ours.step, random_actions(space, n, ACTION_SETS), n),
        "envpool": stepping(peer.step, random_actions(space, n, ACTION_SETS, np.int32), n),
    }
    if n == GYMNASIUM_AT:
        plain = gym.make_vec(TASK, num_envs=n, vectorization_mode="vector_entry_point")
        plain.reset(seed=0)
        runs["gymnasium (NumPy)"] = stepping(plain.step, random_actions(space, n, ACTION_SETS, np.int64), n)
    return runs


def main() -> None:
    args = tyro.cli(CartPoleArgs)
    report = Report(
        "cartpole_pool",
        "CartPole-v1, random actions",
        {"num_threads": args.num_threads, "repeats": args.repeats, "seconds": args.seconds},
    )
    for n in args.sizes:
        least = {"envpool": SIZES[n]} if n in SIZES else {}
        if n == GYMNASIUM_AT:
            least["gymnasium (NumPy)"] = GYMNASIUM_LEAST
        report.cases.append(Case(f"{TASK} N={n}", alternate(contenders(n, args.num_threads), args), least))
    report.write(args.out)


if __name__ == "__main__":
    main()
