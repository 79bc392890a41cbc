"""Gymnasium's MuJoCo tasks, versions 4 and 5, with its names, options, info fields, spaces and rules.

A module, and with it Warp and MuJoCo, is imported when one of its tasks is first built.

In the modules of the tasks, ``State`` is the struct of a task's own state, the model's sizes, options and constants.
``View`` is the struct of the outputs, float64: ``obs`` [envs, size] and info fields [envs], with Gymnasium's contents.
``build`` returns the `MujocoEnv` and ``observation`` the observation space, both for a version, options and a model.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

_MODULES = {
    "Ant": "ant",
    "HalfCheetah": "planar",
    "Hopper": "planar",
    "Humanoid": "humanoid",
    "HumanoidStandup": "humanoid_standup",
    "InvertedDoublePendulum": "inverted_double_pendulum",
    "InvertedPendulum": "inverted_pendulum",
    "Pusher": "pusher",
    "Reacher": "reacher",
    "Swimmer": "swimmer",
    "Walker2d": "planar",
}
TASKS: tuple[str, ...] = tuple(f"{name}-{version}" for name in _MODULES for version in ("v4", "v5"))


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Observations and actions are float64 vectors. Info fields are float64, except ``physics_warning``, which is
    int32 and nonzero if a warning of MuJoCo ended the episode; see `headrace.mujoco.MujocoTask`.

    Args:
        task: one of `TASKS`.
        options: Gymnasium's keyword arguments, or EnvPool's names for them. Both versions have ``xml_file``,
            ``frame_skip``, ``frame_stack``, ``max_episode_steps`` and the rendering options.

    Raises:
        OptionError: an option is unknown or invalid, the model is unsuitable, or MuJoCo is not installed.
    """
    from headrace.envs.mujoco.cameras import CONFIG, camera
    from headrace.envs.mujoco.options import in_gymnasiums_names
    from headrace.pool.executors.mujoco.pictures import picture_options

    found = importlib.import_module(f"{__name__}.{_MODULES[task.partition('-')[0]]}").TASKS[task]
    found = replace(found, camera=camera(task, options.pop(CONFIG, None)))
    return found(task, **in_gymnasiums_names(task, {**picture_options(options), **found.options}, options))


FAMILY = Family(
    "mujoco",
    TASKS,
    build,
    runs_on="MuJoCo on threads, or on a GPU",
    extra="headrace[mujoco]",
    presets="headrace.envs.mujoco.presets:PRESETS",
    recipe=("ppo", "fast"),
    other_names={
        **{f"{name}-v3": (f"{name}-v4", {}) for name in ("HalfCheetah", "Hopper", "Swimmer", "Walker2d")},
        **{f"{name}-v2": (f"{name}-v4", {}) for name in ("HumanoidStandup", "Pusher", "Reacher")},
        **{f"Inverted{name}-v2": (f"Inverted{name}-v4", {}) for name in ("DoublePendulum", "Pendulum")},
        "Ant-v3": ("Ant-v4", {"use_contact_force": True}),
    },
)
