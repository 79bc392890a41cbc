"""WarpDrive's game of tag: taggers chase runners, on a grid or in the plane.

The rules are those of Lan, Srinivasa, Wang and Zheng, "WarpDrive: Extremely fast end-to-end deep multi-agent
reinforcement learning on a GPU" (2021, arXiv 2108.13976), with two corrections: simultaneous tags all count,
and the last step of an episode has the same rules as the others.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

_MODULES = {"TagGridWorld-v0": "grid_world", "TagContinuous-v0": "continuous"}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name; its options are documented in its module.

    Raises:
        OptionError: an option is unknown, or its value is invalid.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "tag",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.tag.presets:PRESETS",
    meanings={"TagGridWorld-v0": ("·", "→", "←", "↑", "↓")},
)
