"""What all tasks with goals share: the spaces of observations, and the folder of models."""

from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.options import Option
from headrace.pool.signals import Part

SPARSE, DENSE = "sparse", "dense"
OPTIONS = {"reward_type": Option(SPARSE, choices=(SPARSE, DENSE)), "flat_observation": False}


def goal_space(goal: int, observation: int) -> gym.spaces.Dict:
    """Returns the space of observations with goals of so many numbers, in the order in which Gymnasium flattens it."""
    sizes = {"achieved_goal": goal, "desired_goal": goal, "observation": observation}
    return gym.spaces.Dict(OrderedDict((key, unbounded(size)) for key, size in sizes.items()))


def goal_parts(axes: tuple[str, ...]) -> tuple[Part, ...]:
    """Returns the parts of an observation that are places: the achieved goal and the desired one."""
    return tuple(Part(f"{which} goal", (len(axes),), "m", axes) for which in ("achieved", "desired"))


def unbounded(size: int) -> gym.spaces.Box:
    """Returns the unbounded space float64[size]."""
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)


def assets(folder: str) -> Path:
    """Returns the path of a folder of Gymnasium-Robotics' models.

    Raises:
        OptionError: the package is not installed.
    """
    found = find_spec("gymnasium_robotics")
    if found is None or not found.submodule_search_locations:
        raise OptionError(
            "the models of these tasks come with gymnasium-robotics: pip install 'headrace[gymnasium-robotics]'"
        )
    return Path(found.submodule_search_locations[0]) / "envs" / "assets" / folder
