"""Robots that one can buy, as tasks: they walk by commands of velocity.

A module, and with it Warp and MuJoCo, is imported when one of its tasks is first built. `walker` has the functions that
all robots share, `quadruped` and `humanoid` those of their rewards, `robot` makes a task of a robot's numbers and
`specs` a model of its file, and a module for each robot has these.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

_MODULES = {
    "Go1Flat-v0": "go1",
    "Go1Mjlab-v0": "go1_mjlab",
    "Go1Rough-v0": "go1",
    "Go2Flat-v0": "go2",
    "Go2UniLab-v0": "go2_unilab",
    "G1Flat-v0": "g1",
    "G1Nano-v0": "nano",
    "T1Flat-v0": "t1",
}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Observations are float32 vectors, and actions in [-1, 1] move the targets of the servos away from the pose in which
    episodes start.

    Args:
        task: one of `TASKS`.
        options: see ``docs/robots.md``, and the options of `headrace.mujoco.MujocoTask`.

    Raises:
        OptionError: an option is unknown or invalid, the model is unsuitable, or MuJoCo is not installed.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "robots",
    TASKS,
    build,
    runs_on="MuJoCo on threads, or on a GPU",
    extra="headrace[mujoco]",
    presets="headrace.envs.robots.presets:PRESETS",
    kinds=("robots on four legs",),
    recipe=("ppo", "fast"),
    recipe_from_pixels=("sac", "default"),
)
