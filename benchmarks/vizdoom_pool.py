"""ViZDoom's Basic and Deathmatch through a pool, beside EnvPool.

Equal settings for both: 84x84 frames in colour resized over pixel areas, 4 stacked, frame skip 4, one number for all
buttons, episodes of 525 steps, next-step autoreset, equally many threads (or worker processes), and random actions that
change with every step. The engines are each package's own: EnvPool's is an older one.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import envpool
import tyro

import headrace
from common import Args, Comparison, measure, random_steps

ACTION_SETS = 16
FRAME_SKIP = 4
WANTED = {"envpool": 1.0}
SHARED = {
    "stack_num": 4, "frame_skip": FRAME_SKIP, "img_height": 84, "img_width": 84, "use_inter_area_resize": True,
    "use_combined_action": True, "max_episode_steps": 525,
}  # fmt: skip
"""options whose names and meanings both share"""


@dataclass
class VizdoomArgs(Args):
    """Basic and Deathmatch beside EnvPool."""

    tasks: tuple[str, ...] = ("Basic-v1", "Deathmatch-v1")
    """names of tasks"""
    num_envs: int = 8
    """environments of each pool"""
    num_threads: tuple[int, ...] = (2, 4)
    """threads, or worker processes, of every contender: each waits for engines, so some may be more than cores"""


def comparisons(args: VizdoomArgs) -> Iterator[Comparison]:
    """One for each task and number of threads."""
    n = args.num_envs
    for task, threads in itertools.product(args.tasks, args.num_threads):
        sizes: dict[str, Any] = {"num_envs": n, "num_threads": threads, "seed": 0}
        ours, peer = (make(task, **sizes, **SHARED) for make in (headrace.make, envpool.make_gymnasium))
        peers = {"envpool": random_steps(peer, n, ACTION_SETS)}
        name = f"{task} N={n}, {threads} threads"
        yield Comparison(name, random_steps(ours, n, ACTION_SETS), peers, wanted=WANTED, frame_skip=FRAME_SKIP)


if __name__ == "__main__":
    chosen = tyro.cli(VizdoomArgs)
    chosen.out = chosen.out.resolve()
    os.chdir(tempfile.mkdtemp())  # EnvPool's engine leaves files where it runs
    measure(
        "vizdoom_pool",
        "ViZDoom, 84x84x4 in colour",
        comparisons(chosen),
        chosen,
        **SHARED,
    )
