"""Options of the task that change with the number of agent steps.

Environments are built with their options, so a change of a curriculum makes new environments, in which new episodes
begin. Options with a schedule change in the environments that there are, within episodes. Both happen between two
rollouts, and change nothing else of the run.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import OptionError
from headrace.pool.registry import build_task
from headrace.train.settings.config import Config
from headrace.train.settings.values import interpolated


def options_at(config: Config, step: int) -> dict[str, Any]:
    """Returns the options of the task's environments at agent step ``step``."""
    if not config.curriculum:
        return config.env_options
    now = {name: [value for since, value in points if since <= step][-1:] for name, points in config.curriculum.items()}
    return config.env_options | {name: value[0] for name, value in now.items() if value}


def scheduled_options(config: Config, step: int) -> dict[str, float]:
    """Returns the options with a schedule, which change within episodes, at agent step ``step``."""
    return {name: interpolated(points, step) for name, points in config.option_schedules.items()}


def final_options(config: Config) -> dict[str, Any]:
    """Returns the options of the final task, in which agents are evaluated and play.

    They are those that ``env_options`` names; others that change have their last values.
    """
    return {name: points[-1][1] for name, points in _changes(config)} | config.env_options


def stage_at(config: Config, step: float) -> int:
    """Returns the agent step with which the stage at ``step`` began; 0 where no options change."""
    return max((since for _, points in _changes(config) for since, _ in points if since <= step), default=0)


def whole_stage_at(config: Config, step: float, environments: int) -> int:
    """Returns the stage, as `stage_at`, in which all episodes began that some environments play at ``step``.

    Options with a schedule change within episodes, whose returns belong to no stage.
    """
    longest = config.build().spec.max_episode_steps if config.option_schedules else 0
    return stage_at(config, step - environments * longest)


def _changes(config: Config) -> list[tuple[str, Any]]:
    return [*config.option_schedules.items(), *config.curriculum.items()]


def is_last_stage(config: Config, step: int) -> bool:
    return stage_at(config, step) == stage_at(config, float("inf"))


def words_of(config: Config, options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={options[name]!r}" for name in config.curriculum if name in options)


def check_curriculum(config: Config) -> None:
    """Checks all options that change before the run begins.

    Raises:
        OptionError: an option is unknown or its value invalid, or it changes the spaces or the agents of the task; or
            one with a schedule changes more than environments that run can take.
    """
    task = config.build()
    if task.changes is not None:  # else the environments say what they cannot change
        for points in config.option_schedules.values():
            for step, _ in points:
                task.changes.tables(scheduled_options(config, step))
    base = task.spec
    for step in sorted({since for points in config.curriculum.values() for since, _ in points}):
        options = options_at(config, step)
        there = build_task(config.task, **options).spec
        for what in ("observation", "action", "agents", "info"):
            if getattr(there, what) != getattr(base, what):
                raise OptionError(
                    f"the curriculum changes the task's {what} at step {step:,} ({words_of(config, options)}), "
                    "for which the network is not made: give it options that change none"
                )
