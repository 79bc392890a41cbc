"""Tasks with goals of Gymnasium-Robotics, with its names, observations, rewards and rules.

A module, and with it Warp and MuJoCo, is imported when one of its tasks is first built. Plappert et al. 2018,
https://arxiv.org/abs/1802.09464.

In the modules of the tasks, ``State`` is the struct of a task's own state and constants, and ``View`` that of the
outputs. Models are those of the package gymnasium-robotics, whose Python is not needed.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.envs.gymnasium_robotics.maps import MAPS
from headrace.pool.family import Family
from headrace.pool.task import Task

_MODULES = {f"Fetch{name}-v4": "fetch" for name in ("Reach", "Push", "Slide", "PickAndPlace")}
_MODULES |= {f"{kind}_{name}-{v}": "maze" for kind, v in (("PointMaze", "v3"), ("AntMaze", "v5")) for name in MAPS}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Observations are a `Dict` of float64 vectors, ``achieved_goal``, ``desired_goal`` and ``observation``, which are one
    vector, in this order, with ``flat_observation=True``. Actions are float64 in [-1, 1].

    Args:
        task: one of `TASKS`.
        options: see ``docs/goals.md``, and the options of `headrace.mujoco.MujocoTask`.

    Raises:
        OptionError: an option is unknown or invalid, or gymnasium-robotics or MuJoCo is not installed.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "gymnasium_robotics",
    TASKS,
    build,
    runs_on="MuJoCo on threads, or on a GPU",
    extra="headrace[gymnasium-robotics]",
    presets="headrace.envs.gymnasium_robotics.presets:PRESETS",
    recipe=("sac", "default"),
    other_names={task.replace("-", "Dense-"): (task, {"reward_type": "dense"}) for task in TASKS},
)
