"""Craftax-Classic's symbolic task at 1,024 environments, beside the package craftax on JAX, where that is installed.

    pip install craftax==1.6.1 "jax[cpu]"

Random actions, precomputed; every step produces its observation, and episodes begin anew when they end. The package
generates a world for every environment in every step, of which it takes those that it needs; so it also plays without
new episodes, where a player that has died goes on as it is. XLA compiles its steps for a CPU, all environments in one
call.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tyro

import headrace
from common import Args, Comparison, Contender, measure, random_steps, stepping

TASK = "Craftax-Classic-Symbolic-v1"
ACTION_SETS = 64
LEAST = 20.0  # of the package's rate without new episodes


@dataclass
class CraftaxArgs(Args):
    """Craftax-Classic beside the package's."""

    num_threads: int = 2
    """threads of the pool"""
    num_envs: int = 1024
    """environments of the pool"""


def package(n: int, auto_reset: bool) -> Contender:
    """A contender that steps n environments of the package in one compiled call."""
    import jax
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name(TASK, auto_reset=auto_reset)
    params = env.default_params
    keys = jax.random.split(jax.random.PRNGKey(0), n)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    _, state = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(keys, params)
    state = jax.tree.map(jax.numpy.asarray, state)

    def act(actions: Any) -> Any:
        nonlocal state
        seen, state, *_ = step(keys, state, actions, params)
        return np.asarray(seen)

    actions = np.random.default_rng(0).integers(0, 17, (1, n)).astype(np.int32)
    act(actions[0])  # compiles
    return stepping(act, list(actions), n)


def ours(n: int, threads: int) -> Contender:
    """A pool of n environments that begin anew in the step in which they end."""
    pool = headrace.make(TASK, num_envs=n, num_threads=threads, seed=0, autoreset="same_step")
    return random_steps(pool, n, ACTION_SETS)


def comparisons(args: CraftaxArgs) -> Iterator[Comparison]:
    """The only one."""
    peers = {"headrace, one thread": ours(args.num_envs, 1)}
    wanted = {}
    if importlib.util.find_spec("craftax"):
        peers["craftax on JAX"] = package(args.num_envs, True)
        peers["craftax on JAX, no resets"] = package(args.num_envs, False)
        wanted = {"craftax on JAX, no resets": LEAST}
    yield Comparison(f"{TASK} N={args.num_envs}", ours(args.num_envs, args.num_threads), peers, wanted=wanted)


if __name__ == "__main__":
    chosen = tyro.cli(CraftaxArgs)
    measure("craftax_pool", "Craftax-Classic", comparisons(chosen), chosen)
