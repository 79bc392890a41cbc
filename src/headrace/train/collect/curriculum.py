"""A curriculum: options of the task that change with the number of agent steps.

Environments are built with their options, so a change makes new environments, in which new episodes begin. It happens
between two rollouts, and changes nothing else of the run.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import OptionError
from headrace.pool.registry import build_task
from headrace.train.settings.config import Config


def options_at(config: Config, step: int) -> dict[str, Any]:
    """Returns the options of the task's environments at agent step ``step``."""
    if not config.curriculum:
        return config.env_options
    now = {name: [value for since, value in points if since <= step][-1:] for name, points in config.curriculum.items()}
    return config.env_options | {name: value[0] for name, value in now.items() if value}


def final_options(config: Config) -> dict[str, Any]:
    """Returns the options of the final task, in which agents are evaluated and play.

    They are those that ``env_options`` names; others of the curriculum have their last values.
    """
    return {name: points[-1][1] for name, points in config.curriculum.items()} | config.env_options


def stage_at(config: Config, step: float) -> int:
    """Returns the agent step with which the stage at ``step`` began; 0 without a curriculum."""
    return max((since for points in config.curriculum.values() for since, _ in points if since <= step), default=0)


def is_last_stage(config: Config, step: int) -> bool:
    return stage_at(config, step) == stage_at(config, float("inf"))


def words_of(config: Config, options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={options[name]!r}" for name in config.curriculum if name in options)


def check_curriculum(config: Config) -> None:
    """Checks all options of a curriculum before the run begins.

    Raises:
        OptionError: an option is unknown or its value invalid, or it changes the spaces or the agents of the task.
    """
    base = config.build().spec
    for step in sorted({since for points in config.curriculum.values() for since, _ in points}):
        options = options_at(config, step)
        there = build_task(config.task, **options).spec
        for what in ("observation", "action", "agents", "info"):
            if getattr(there, what) != getattr(base, what):
                raise OptionError(
                    f"the curriculum changes the task's {what} at step {step:,} ({words_of(config, options)}), "
                    "for which the network is not made: give it options that change none"
                )
