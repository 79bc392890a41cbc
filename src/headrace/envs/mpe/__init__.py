"""MPE2's worlds of particles: agents that push themselves about a plane with landmarks, to cooperate or compete.

The rules are those of the package mpe2, first of Lowe, Wu, Tamar, Harb, Abbeel and Mordatch, "Multi-agent actor-critic
for mixed cooperative-competitive environments" (2017, arXiv 1706.02275). `headrace.envs.mpe.particles` has the physics
that all share, `headrace.envs.mpe.worlds` what agents see and are rewarded for.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

TASKS: tuple[str, ...] = ("SimpleAdversary-v3", "SimpleSpeakerListener-v4", "SimpleSpread-v3", "SimpleTag-v3")


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name; its options are documented in `headrace.envs.mpe.worlds`.

    Raises:
        OptionError: an option is unknown, or its value is invalid.
    """
    return importlib.import_module(f"{__name__}.worlds").TASKS[task](task, **options)


FAMILY = Family(
    "mpe",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.mpe.presets:PRESETS",
    meanings=dict.fromkeys(TASKS, ("·", "←", "→", "↓", "↑")),
)
