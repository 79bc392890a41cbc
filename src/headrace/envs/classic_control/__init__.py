"""The five classic control problems, as kernel environments.

Each is a file of its own, aligned step by step with Gymnasium's; names, spaces, defaults
and info fields are EnvPool's. Naming them costs nothing: a file, and with it Warp, is
imported when its task is first built.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from headrace.errors import OptionError
from headrace.pool.spec import Task, TaskSpec

_TASKS: dict[str, tuple[str, str, int]] = {  # name → module, its environment, max_episode_steps
    "CartPole-v0": ("cartpole", "ENV", 200),
    "CartPole-v1": ("cartpole", "ENV", 500),
    "Pendulum-v0": ("pendulum", "ENV_V0", 200),
    "Pendulum-v1": ("pendulum", "ENV_V1", 200),
    "MountainCar-v0": ("mountain_car", "ENV", 200),
    "MountainCarContinuous-v0": ("mountain_car_continuous", "ENV", 999),
    "Acrobot-v1": ("acrobot", "ENV", 500),
}
TASKS: tuple[str, ...] = tuple(_TASKS)


def build(task: str, **options: Any) -> Task:
    """The task of this name.

    Args:
        task: one of `TASKS`.
        options: ``max_episode_steps`` (0 for never), and ``sutton_barto_reward`` (CartPole),
            ``g`` (Pendulum) or ``goal_velocity`` (both mountain cars), as Gymnasium has them.

    Raises:
        OptionError: an option is unknown, or its value is of the wrong type or not finite.
    """
    module_name, env_name, max_episode_steps = _TASKS[task]
    module = importlib.import_module(f"headrace.envs.classic_control.{module_name}")
    given = _complete(task, {"max_episode_steps": max_episode_steps, **module.OPTIONS}, options)
    spec = TaskSpec(
        task=task,
        observation=module.OBSERVATION,
        action=module.ACTION,
        info=getattr(module, "INFO", ()),
        max_episode_steps=given.pop("max_episode_steps"),
        options=given,
    )
    from headrace.pool.executors.kernels import KernelExecutor

    return Task(spec, partial(KernelExecutor, getattr(module, env_name)))


def _complete(task: str, defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults, overridden by options that exist and are of the default's type."""
    for name, value in options.items():
        if name not in defaults:
            close = difflib.get_close_matches(name, defaults, 3, 0.4) or sorted(defaults)
            raise OptionError(f"{task} has no option {name!r}: did you mean {', '.join(close)}?")
        if not _fits(value, defaults[name]):
            raise OptionError(f"{name} of {task} must be {_WANTED[type(defaults[name])]}, not {value!r}")
    return {name: type(default)(options.get(name, default)) for name, default in defaults.items()}


_WANTED = {bool: "True or False", int: "an integer of at least 0", float: "a finite number"}


def _fits(value: Any, default: Any) -> bool:
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if isinstance(default, int):
        return isinstance(value, int) and 0 <= value < 2**31
    return isinstance(value, int | float) and math.isfinite(value)
