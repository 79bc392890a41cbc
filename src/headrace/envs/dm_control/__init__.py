"""All tasks of the DeepMind Control Suite, one module per domain.

Tasks reproduce those of dm_control, step by step; names, options and spaces are those of EnvPool. A domain,
and with it Warp, MuJoCo and dm_control, is imported when one of its tasks is first built.
Tassa et al., "DeepMind Control Suite" (2018), https://arxiv.org/abs/1801.00690.

In the modules of the domains, ``State`` is the struct of a task's constants and of its state other than MuJoCo's,
where numbers of bodies, sites and geoms and addresses of joints and sensors are those of MuJoCo's arrays.
``View`` is the struct of the observation, with one field ``obs_<key>``, float64[envs, …], for each of dm_control's
keys.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

DOMAINS: dict[str, tuple[str, ...]] = {
    "acrobot": ("swingup", "swingup_sparse"),
    "ball_in_cup": ("catch",),
    "cartpole": ("balance", "balance_sparse", "swingup", "swingup_sparse", "two_poles", "three_poles"),
    "cheetah": ("run",),
    "dog": ("stand", "walk", "trot", "run", "fetch"),
    "finger": ("spin", "turn_easy", "turn_hard"),
    "fish": ("upright", "swim"),
    "hopper": ("stand", "hop"),
    "humanoid": ("stand", "walk", "run", "run_pure_state"),
    "humanoid_CMU": ("stand", "walk", "run"),
    "lqr": ("lqr_2_1", "lqr_6_2"),
    "manipulator": ("bring_ball", "bring_peg", "insert_ball", "insert_peg"),
    "pendulum": ("swingup",),
    "point_mass": ("easy", "hard"),
    "quadruped": ("walk", "run", "escape", "fetch"),
    "reacher": ("easy", "hard"),
    "stacker": ("stack_2", "stack_4"),
    "swimmer": ("swimmer6", "swimmer15"),
    "walker": ("stand", "walk", "run"),
}


def task_name(domain: str, task: str) -> str:
    """Returns EnvPool's name of a task, such as ``BallInCupCatch-v1`` for ``ball_in_cup`` and ``catch``."""
    parts = f"{domain}_{task}".split("_")
    return "".join(part if part.isupper() else part.capitalize() for part in parts) + "-v1"


SUITE = {task_name(domain, task): (domain, task) for domain, tasks in DOMAINS.items() for task in tasks}
TASKS: tuple[str, ...] = tuple(SUITE)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Observations are a `Dict` of float64 arrays with dm_control's keys; actions are float64[actuators], in the
    actuators' control ranges. As in dm_control, an episode has 1000 steps.

    Args:
        task: one of `TASKS`.
        options: ``flat_observation`` (whether the arrays are concatenated, in dm_control's order), ``frame_skip``
            (physics steps in an agent step), ``frame_stack``, ``max_episode_steps``, the rendering options of
            `headrace.mujoco.MujocoTask`, and ``num_poles`` and ``sparse`` (CartpoleThreePoles only).

    Raises:
        OptionError: an option is unknown or invalid, or dm_control or MuJoCo is not installed.
    """
    domain, name = SUITE[task]
    return importlib.import_module(f"{__name__}.{domain.lower()}").TASKS[name](task, **options)


FAMILY = Family(
    "dm_control",
    TASKS,
    build,
    runs_on="MuJoCo on threads, or on a GPU",
    extra="headrace[dm-control]",
    presets="headrace.envs.dm_control.presets:PRESETS",
    recipe=("ppo", "fast"),
    recipe_from_pixels=("ppo", "fast"),
)
