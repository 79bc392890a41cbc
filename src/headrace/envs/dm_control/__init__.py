"""The DeepMind Control Suite: all its tasks, each domain a file of its own.

What happens in a task is dm_control's, step by step; names are EnvPool's, and so are options and
spaces. Naming them costs nothing: a domain, and with it Warp, MuJoCo and dm_control, is imported
when one of its tasks is first built. Tassa et al., "DeepMind Control Suite" (2018),
https://arxiv.org/abs/1801.00690.
"""

from __future__ import annotations

import importlib
from typing import Any

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
    """EnvPool's name of a task: ``ball_in_cup``, ``catch`` is ``BallInCupCatch-v1``."""
    parts = f"{domain}_{task}".split("_")
    return "".join(part if part.isupper() else part.capitalize() for part in parts) + "-v1"


SUITE = {task_name(domain, task): (domain, task) for domain, tasks in DOMAINS.items() for task in tasks}
TASKS: tuple[str, ...] = tuple(SUITE)


def build(task: str, **options: Any) -> Task:
    """The task of this name.

    Observations are a `Dict` of float64 arrays with dm_control's keys; actions are float64 in the
    actuators' ranges. An episode lasts as long as in dm_control, 1000 steps.

    Args:
        task: one of `TASKS`.
        options: ``flat_observation`` (one array in place of several, in dm_control's order), ``frame_skip``
            (steps of physics in an agent step), ``frame_stack``, ``max_episode_steps``;
            ``num_poles`` and ``sparse`` (CartpoleThreePoles).

    Raises:
        OptionError: an option is unknown or wrong, or dm_control or MuJoCo is not installed.
    """
    domain, name = SUITE[task]
    return importlib.import_module(f"{__name__}.{domain.lower()}").TASKS[name](task, **options)
