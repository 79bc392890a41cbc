"""Tag, the game of WarpDrive: taggers chase runners, on a grid or in the plane.

Rules after Lan, Srinivasa, Wang, Zheng, "WarpDrive: Extremely fast end-to-end deep multi-agent
reinforcement learning on a GPU" (2021, arXiv 2108.13976), with two things set right: tags at the same
moment all count, and the last step of an episode is played like any other.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.task import Task

_MODULES = {"TagGridWorld-v0": "grid_world", "TagContinuous-v0": "continuous"}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """The task of this name; its module says which options there are.

    Raises:
        OptionError: an option is unknown, or its value does not fit.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)
