"""ViZDoom's scenarios of Doom, in worker processes; each game has its own engine process.

Names, options, spaces, rewards and info fields are those of EnvPool, the dynamics those of ViZDoom. Environments are
Python classes: most of a step's time is spent in the engine, so that native code would not be faster. The package
vizdoom is imported when a task is first built.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headrace.envs.vizdoom.options import OPTIONS
from headrace.envs.vizdoom.scenarios import SCENARIO_OF
from headrace.errors import OptionError
from headrace.pool.executors.processes.task import process_task, split_options
from headrace.pool.family import Family
from headrace.pool.options import complete
from headrace.pool.signals import Signals
from headrace.pool.spec import Field, TaskSpec
from headrace.pool.task import Task

TASKS: tuple[str, ...] = tuple(SCENARIO_OF)
MAX_EPISODE_STEPS = 525


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Observations are uint8[stack_num * channels, img_height, img_width], oldest frame first. Actions are
    float64[buttons], or with ``use_combined_action`` a discrete action. Info fields are the game variables of
    `env.INFO`, float64.

    Args:
        task: one of `TASKS`.
        options: any of `options.OPTIONS`, ``max_episode_steps`` (525 by default; 0 for no limit), ``on_failure`` and
            ``worker_timeout``.

    Raises:
        OptionError: an option is unknown, invalid, or unsuitable for the scenario; a file is missing; or ViZDoom is
            not installed.
    """
    own, rest = split_options({"max_episode_steps": MAX_EPISODE_STEPS, **options})
    given = complete(task, OPTIONS, rest)
    limit = own["max_episode_steps"]
    _make_folder(task, given["lmp_save_dir"])
    from headrace.envs.vizdoom.env import INFO, VizdoomEnv

    env = VizdoomEnv(task, given, limit)
    spec = TaskSpec(
        task=task,
        observation=env.observation_space,
        action=env.action_space,
        info=tuple(Field(name, np.dtype(np.float64)) for name in INFO),
        max_episode_steps=limit,
        frame_skip=given["frame_skip"],
        options=given,
        render_fps=env.metadata["render_fps"],
        signals=Signals(rate_hz=env.metadata["render_fps"]),
    )
    return replace(process_task(spec, partial(VizdoomEnv, task, given, limit), own), stack="stack_num")


def _make_folder(task: str, folder: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"lmp_save_dir of {task}: no folder can be made at {folder}: {error}") from error


FAMILY = Family(
    "vizdoom",
    TASKS,
    build,
    runs_on="engines in processes",
    extra="headrace[vizdoom]",
    presets="headrace.envs.vizdoom.presets:PRESETS",
)
