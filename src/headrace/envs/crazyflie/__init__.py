"""A Crazyflie, the palm-sized quadrotor, that hovers or follows a curve: the simulator l2f as a kernel.

`headrace.envs.crazyflie.flight` has its physics, `headrace.envs.crazyflie.tasks` what it observes and earns.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

TASKS: tuple[str, ...] = ("Crazyflie-v0", "CrazyflieCurve-v0")


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name; its options are documented in `headrace.envs.crazyflie.tasks`.

    Raises:
        OptionError: an option is unknown, or its value is invalid.
    """
    return importlib.import_module(f"{__name__}.tasks").TASKS[task](task, **options)


FAMILY = Family(
    "crazyflie",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.crazyflie.presets:PRESETS",
)
