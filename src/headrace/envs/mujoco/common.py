"""What Gymnasium's MuJoCo tasks have in common: their models, starts and spaces.

The tasks here do what Gymnasium's do, with its names of options and info; models come from its
package. Farama Foundation, "Gymnasium", `gymnasium.envs.mujoco`.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.kernels.random import Streams, normal, uniform


@wp.func
def add_uniform(values: Any, env: int, count: int, scale: wp.float64, streams: Streams):
    """Add to each of an environment's ``count`` numbers one that is uniform in [-scale, scale)."""
    for i in range(count):
        values[env, i] = values[env, i] + uniform(streams, env, -scale, scale)


@wp.func
def add_normal(values: Any, env: int, count: int, scale: wp.float64, streams: Streams):
    """Add to each of an environment's ``count`` numbers a normal one of this standard deviation."""
    for i in range(count):
        values[env, i] = normal(streams, env, wp.float64(values[env, i]), scale)


@wp.func
def copy_row(values: Any, env: int, first: int, count: int, obs: wp.array2d(dtype=wp.float64), at: int) -> int:
    """Copy ``values[env, first:count]`` into an observation from ``at`` on; the position behind them."""
    for i in range(first, count):
        obs[env, at + i - first] = values[env, i]
    return at + count - first


@wp.func
def sum_of_squares(values: wp.array2d(dtype=wp.float64), env: int, count: int) -> wp.float64:
    total = wp.float64(0.0)
    for i in range(count):
        total += values[env, i] * values[env, i]
    return total


def load_model(options: Mapping[str, Any]) -> Any:
    """The compiled model of ``xml_file``: a path, or the name of a file that Gymnasium ships."""
    import mujoco

    path = Path(options["xml_file"]).expanduser()
    if not (path.is_absolute() or options["xml_file"].startswith(".")):
        found = find_spec("gymnasium")
        assert found is not None and found.submodule_search_locations
        path = Path(found.submodule_search_locations[0]) / "envs" / "mujoco" / "assets" / path
    if not path.is_file():
        raise OptionError(f"xml_file: there is no file {path}")
    return mujoco.MjModel.from_xml_path(str(path))


def box(size: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
