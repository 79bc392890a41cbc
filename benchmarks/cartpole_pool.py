"""CartPole-v1 at 1, 8, 64 and 1,024 environments: what a step costs when the physics is nearly free.

Random actions, precomputed, that change with every step, in each contender's own
integer type; next-step autoreset everywhere; observations read by nobody.
At 1,024 Gymnasium's NumPy CartPole takes part as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import envpool
import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import Args, Comparison, measure, random_steps

TASK = "CartPole-v1"
SIZES = {1: 8.0, 8: 8.0, 64: 15.0, 1024: 20.0}
"""environments → the least ratio to EnvPool"""
NUMPY, NUMPY_AT, NUMPY_LEAST = "gymnasium (NumPy)", 1024, 1.5


@dataclass
class CartPoleArgs(Args):
    """CartPole-v1 beside EnvPool and Gymnasium."""

    num_threads: int = 2
    """threads of a pool, ours and EnvPool's"""
    sizes: tuple[int, ...] = tuple(SIZES)
    """numbers of environments"""


def comparisons(args: CartPoleArgs) -> Iterator[Comparison]:
    """One for each number of environments, with pools of its own."""
    for n in args.sizes:
        ours: Any = headrace.make(TASK, num_envs=n, num_threads=args.num_threads, seed=0)
        peer = envpool.make_gymnasium(TASK, num_envs=n, num_threads=min(args.num_threads, n), seed=0)
        peers = {"envpool": random_steps(peer, n, dtype=np.int32)}
        if n == NUMPY_AT:
            plain = gym.make_vec(TASK, num_envs=n, vectorization_mode="vector_entry_point")
            peers[NUMPY] = random_steps(plain, n, dtype=np.int64)
        wanted = {NUMPY: NUMPY_LEAST} | ({"envpool": SIZES[n]} if n in SIZES else {})
        yield Comparison(f"{TASK} N={n}", random_steps(ours, n), peers, wanted=wanted)


if __name__ == "__main__":
    chosen = tyro.cli(CartPoleArgs)
    measure("cartpole_pool", "CartPole-v1, random actions", comparisons(chosen), chosen)
