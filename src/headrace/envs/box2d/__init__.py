"""Gymnasium's environments on Box2D, in C++: the lunar lander, the walker on two legs and the racing car.

Names, options and spaces are those of Gymnasium, and so are results, bit for bit; see ``native/box2d``. The compiled
module is imported when a task is first built.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.native_modules import BOX2D
from headrace.pool.family import Family
from headrace.pool.flat_observation import PICTURES, pictures_option
from headrace.pool.options import Checked, Option, complete, decimal
from headrace.pool.signals import NO_SIGNALS, Control, Part, Signals, numbers
from headrace.pool.spec import TaskSpec
from headrace.pool.task import Task

FRAMES_PER_SECOND = 50.0


def _gravity(value: Any) -> float:
    if isinstance(value, bool) or not -12 < value < 0:
        raise ValueError
    return float(value)


def _lander(continuous: bool) -> dict[str, Option]:
    return {
        "continuous": Option(continuous),
        "gravity": Checked(-10.0, check=_gravity, wanted="a number between -12 and 0"),
        "enable_wind": Option(False),
        "wind_power": decimal(15.0),
        "turbulence_power": decimal(1.5),
        "max_episode_steps": Option(1000),
    }


def _walker(hardcore: bool) -> dict[str, Option]:
    return {"hardcore": Option(hardcore), "max_episode_steps": Option(2000 if hardcore else 1600)}


def _percent(value: Any) -> float:
    if isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError
    return float(value)


def _car() -> dict[str, Option]:
    return {
        "continuous": Option(True),
        "lap_complete_percent": Checked(0.95, check=_percent, wanted="a number between 0 and 1"),
        "domain_randomize": Option(False),
        "frame_skip": Option(1, low=1),
        "flat_observation": pictures_option(),
        "max_episode_steps": Option(1000),
    }


_TASKS = {
    "LunarLander-v3": ("lunar_lander", _lander(continuous=False)),
    "LunarLanderContinuous-v3": ("lunar_lander", _lander(continuous=True)),
    "BipedalWalker-v3": ("bipedal_walker", _walker(hardcore=False)),
    "BipedalWalkerHardcore-v3": ("bipedal_walker", _walker(hardcore=True)),
    "CarRacing-v3": ("car_racing", _car()),
}
TASKS: tuple[str, ...] = tuple(_TASKS)
_LEG = dict.fromkeys(("hip_angle", "hip_speed", "knee_angle", "knee_speed", "leg_touches_the_ground"), "")
_SIGNALS = {  # in Gymnasium's scales, which are no units
    "lunar_lander": Signals(
        numbers(
            x="", y="", x_speed="", y_speed="", angle="rad", angular_velocity="",
            left_leg_touches_the_ground="", right_leg_touches_the_ground="",
        ),
        (Control("main engine"), Control("side engines")),
    ),
    "bipedal_walker": Signals(
        (
            *numbers(hull_angle="rad", hull_angular_velocity="", x_speed="", y_speed=""),
            *numbers(**{f"{side}_{name}": unit for side in ("first", "second") for name, unit in _LEG.items()}),
            Part("distances by lidar", (10,)),
        ),
        tuple(Control(f"{joint} of the {leg} leg") for leg in ("first", "second") for joint in ("hip", "knee")),
    ),
}  # fmt: skip


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Args:
        task: one of `TASKS`.
        options: ``max_episode_steps`` (0 for no limit), and Gymnasium's: ``continuous``, ``gravity``, ``enable_wind``,
            ``wind_power`` and ``turbulence_power`` of the lander, ``hardcore`` of the walker; ``continuous``,
            ``lap_complete_percent`` and ``domain_randomize`` of the car. The car also has ``frame_skip`` (frames in a
            step, of which the last is seen), and with ``flat_observation="pictures"`` its pictures are
            uint8[3, 96, 96], channels first, as training asks for.

    Raises:
        OptionError: an option is unknown or invalid.
    """
    simulator, known = _TASKS[task]
    settings = complete(task, known, options)
    max_episode_steps = settings.pop("max_episode_steps")
    observation, action = _SPACES[simulator]
    if settings.get("flat_observation") == PICTURES:
        observation = gym.spaces.Box(0, 255, (3, 96, 96), np.uint8)
    skipped = settings.get("frame_skip", 1)
    spec = TaskSpec(
        task=task,
        observation=observation,
        action=_CHOICES[simulator] if settings.get("continuous") is False else action,
        max_episode_steps=max_episode_steps,
        frame_skip=skipped,
        options=settings,
        render_fps=FRAMES_PER_SECOND / skipped,
        signals=replace(_SIGNALS.get(simulator, NO_SIGNALS), rate_hz=FRAMES_PER_SECOND / skipped),
    )
    return Task(spec, partial(_executor, simulator, settings))


def _executor(simulator: str, settings: dict[str, Any], *context: Any) -> Any:
    """Returns the executor of a simulator, whose compiled module is built or loaded now."""
    from headrace.pool.executors.threads import ThreadsExecutor

    box2d = BOX2D.load()
    if "flat_observation" in settings:
        settings = {**settings, "channels_first": settings["flat_observation"] == PICTURES}
        del settings["flat_observation"]
    return ThreadsExecutor(box2d, getattr(box2d, simulator)(**settings), *context)


def _bounded(high: list[float], low: list[float] | None = None) -> gym.spaces.Box:
    ends = np.array(high, np.float32)
    return gym.spaces.Box(-ends if low is None else np.array(low, np.float32), ends)


_LEG = [math.pi, 5.0, math.pi, 5.0]  # angles and speeds of hip and knee
_SPACES: dict[str, tuple[gym.spaces.Box, gym.spaces.Box]] = {
    "lunar_lander": (
        _bounded(
            [2.5, 2.5, 10.0, 10.0, 2 * math.pi, 10.0, 1.0, 1.0],
            [-2.5, -2.5, -10.0, -10.0, -2 * math.pi, -10.0, 0.0, 0.0],
        ),
        gym.spaces.Box(-1, 1, (2,), np.float32),
    ),
    "bipedal_walker": (
        _bounded(
            [math.pi, 5.0, 5.0, 5.0, *_LEG, 5.0, *_LEG, 5.0] + 10 * [1.0],
            [-math.pi, -5.0, -5.0, -5.0, *(-x for x in _LEG), 0.0, *(-x for x in _LEG), 0.0] + 10 * [-1.0],
        ),
        gym.spaces.Box(-1, 1, (4,), np.float32),
    ),
    "car_racing": (
        gym.spaces.Box(0, 255, (96, 96, 3), np.uint8),
        gym.spaces.Box(np.array([-1, 0, 0], np.float32), np.ones(3, np.float32)),
    ),
}
"""simulator → its observations and its continuous actions"""
_CHOICES = {"lunar_lander": gym.spaces.Discrete(4), "car_racing": gym.spaces.Discrete(5)}
"""simulator → its actions where ``continuous`` is False"""


FAMILY = Family(
    "box2d",
    TASKS,
    build,
    runs_on="C++ on threads",
    extra="headrace[box2d]",
    presets="headrace.envs.box2d.presets:PRESETS",
    meanings={
        "LunarLander-v3": ("·", "left engine", "main engine", "right engine"),
        "CarRacing-v3": ("·", "→", "←", "gas", "brake"),
    },
    other_names={f"{name}-v2": (f"{name}-v3", {}) for name in ("CarRacing", "LunarLander", "LunarLanderContinuous")},
)
