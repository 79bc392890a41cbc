"""ViZDoom's Basic and Deathmatch through a pool, beside EnvPool.

Equal settings for both: 84x84 frames in colour resized over pixel areas, 4 stacked, frame skip 4, one number for all
buttons, episodes of 525 steps, next-step autoreset, equally many threads (or worker processes), and random actions that
change with every step. The engines are each package's own: EnvPool's is an older one.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import envpool
import tyro

import headrace
from common import Args, Case, Report, alternate, random_actions, stepping

ACTION_SETS = 16
FRAME_SKIP = 4
AT_LEAST = {"envpool": 1.0}
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


def contenders(task: str, threads: int, args: VizdoomArgs) -> dict[str, Callable[[float], float]]:
    """Pools of one task, started, by name."""
    sizes: dict[str, Any] = {"num_envs": args.num_envs, "num_threads": threads, "seed": 0}
    runs = {}
    for name, make in (("headrace", headrace.make), ("envpool", envpool.make_gymnasium)):
        pool: Any = make(task, **sizes, **SHARED)
        pool.reset()
        runs[name] = stepping(pool.step, random_actions(pool.action_space, args.num_envs, ACTION_SETS), args.num_envs)
    return runs


def main() -> None:
    args = tyro.cli(VizdoomArgs)
    args.out = args.out.resolve()
    os.chdir(tempfile.mkdtemp())  # EnvPool's engine leaves files where it runs
    report = Report(
        "vizdoom_pool",
        "ViZDoom, 84x84x4 in colour, frame skip 4, random actions",
        {**SHARED, "num_threads": args.num_threads, "repeats": args.repeats, "seconds": args.seconds},
    )
    for task, threads in itertools.product(args.tasks, args.num_threads):
        rates = alternate(contenders(task, threads, args), args)
        name = f"{task} N={args.num_envs}, {threads} threads"
        report.cases.append(Case(name, rates, AT_LEAST, frame_skip=FRAME_SKIP))
    report.write(args.out)


if __name__ == "__main__":
    main()
