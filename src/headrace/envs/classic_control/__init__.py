"""The five classic control problems, as kernel environments.

Each module implements one problem with the dynamics of Gymnasium's, step by step. Names, spaces,
defaults and info fields are those of EnvPool. A module, and with it Warp, is imported when one of
its tasks is first built.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

_MODULES = {
    "CartPole-v0": "cartpole",
    "CartPole-v1": "cartpole",
    "Pendulum-v0": "pendulum",
    "Pendulum-v1": "pendulum",
    "MountainCar-v0": "mountain_car",
    "MountainCarContinuous-v0": "mountain_car_continuous",
    "Acrobot-v1": "acrobot",
}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Args:
        task: one of `TASKS`.
        options: ``max_episode_steps`` (0 for no limit), and Gymnasium's options ``sutton_barto_reward``
            (CartPole), ``g`` (Pendulum) or ``goal_velocity`` (both mountain cars).

    Raises:
        OptionError: an option is unknown, or its value is of the wrong type or not finite.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "classic_control",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.classic_control.presets:PRESETS",
    meanings={
        "CartPole-v0": ("←", "→"),
        "CartPole-v1": ("←", "→"),
        "MountainCar-v0": ("←", "·", "→"),
        "Acrobot-v1": ("↻", "·", "↺"),
    },
    # EnvPool's; Gymnasium's own environments of these names need JAX, or no longer exist
    other_names={f"phys2d/{name}": (name, {}) for name in ("CartPole-v0", "CartPole-v1", "Pendulum-v0")},
)
