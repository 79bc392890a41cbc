"""Playground's Go1 through a pool, beside EnvPool's.

Two threads for all, control steps of 20 ms in five physics steps, sensors with noise, no kicks, episodes of 1,000
steps, random actions that change with every step, next-step autoreset, each environment in the middle of an episode.
Ours by the task's default, which is lanes, then in floats, as its recipe trains, and by MuJoCo's own step. EnvPool's
model is Playground's own, whose solver stops after one iteration; in ours it runs to its end. EnvPool's observation
also has what only a critic sees, which cannot be left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import envpool
import tyro

import headrace
from common import OURS, Args, Comparison, measure, random_actions, stepping
from headrace.pool.executors.mujoco.lanes import LANES32, MUJOCO
from mujoco_pool import AT_LEAST, ENVPOOL, REPLAYED, warmed

TASK, THEIRS = "Go1Flat-v0", "Go1JoystickFlatTerrain-v1"


@dataclass
class RobotsArgs(Args):
    """Playground's Go1 beside EnvPool's."""

    sizes: tuple[int, ...] = (64,)
    """environments of a pool; 1,024 of EnvPool's, whose models have meshes, do not fit into 24 GB of memory"""
    num_threads: int = 2
    """threads of every contender"""


def comparisons(args: RobotsArgs) -> Iterator[Comparison]:
    """One for each number of environments."""
    for n in args.sizes:
        sizes: dict[str, Any] = {"num_envs": n, "num_threads": args.num_threads, "seed": 0}
        ours = headrace.make(TASK, **sizes)
        pools: dict[str, Any] = {OURS: ours, ENVPOOL: envpool.make_gymnasium(THEIRS, **sizes)}
        pools |= {f"physics={each}": headrace.make(TASK, **sizes, physics=each) for each in (LANES32, MUJOCO)}
        actions = random_actions(ours.action_space, n, max(4, REPLAYED // n))
        runs = {name: stepping(warmed(pool, actions).step, actions, n) for name, pool in pools.items()}
        yield Comparison(f"N={n}", runs.pop(OURS), runs, wanted=AT_LEAST, frame_skip=ours.spec.frame_skip)


if __name__ == "__main__":
    chosen = tyro.cli(RobotsArgs)
    measure("robots_pool", f"{TASK}, random actions", comparisons(chosen), chosen, task=TASK, envpool=THEIRS)
