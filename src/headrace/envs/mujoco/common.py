"""What Gymnasium's MuJoCo tasks have in common: models, starts, and pieces of observations.

The tasks here do what Gymnasium's do, with its names of options and info; models come from its
package. Farama Foundation, "Gymnasium", `gymnasium.envs.mujoco`.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.mujoco.options import ENDS
from headrace.errors import OptionError
from headrace.pool.executors.kernels.random import Streams, normal, uniform
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.spec import Field

_muted = Lock()  # MuJoCo has one place for who hears warnings


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
def start_uniform(physics: Any, state: Any, env: int, streams: Streams):
    """Positions and velocities around the model's own."""
    add_uniform(physics.qpos, env, state.nq, state.reset_noise_scale, streams)
    add_uniform(physics.qvel, env, state.nv, state.reset_noise_scale, streams)


@wp.func
def start_normal(physics: Any, state: Any, env: int, streams: Streams):
    """As `start_uniform`, but velocities are normally distributed."""
    add_uniform(physics.qpos, env, state.nq, state.reset_noise_scale, streams)
    add_normal(physics.qvel, env, state.nv, state.reset_noise_scale, streams)


@wp.func
def copy_row(values: Any, env: int, first: int, count: int, obs: wp.array2d[wp.float64], at: int) -> int:
    """Copy ``values[env, first:count]`` into an observation from ``at`` on; the position behind them."""
    for i in range(first, count):
        obs[env, at + i - first] = values[env, i]
    return at + count - first


@wp.func
def copy_clipped(values: Any, env: int, count: int, most: wp.float64, obs: wp.array2d[wp.float64], at: int) -> int:
    """Copy ``values[env, :count]``, each clipped to [-most, most]; the position behind them."""
    for i in range(count):
        obs[env, at + i] = wp.clamp(values[env, i], -most, most)
    return at + count


@wp.func
def copy_vectors(
    values: Any, env: int, first: int, count: int, width: int, obs: wp.array2d[wp.float64], at: int
) -> int:
    """Copy the vectors ``values[env, first:count]`` of so many numbers, one behind the other; the position behind."""
    for i in range(first, count):
        vector = values[env, i]
        for k in range(width):
            obs[env, at + (i - first) * width + k] = vector[k]
    return at + (count - first) * width


@wp.func
def sum_of_squares(values: wp.array2d[wp.float64], env: int, count: int) -> wp.float64:
    """Of ``values[env, :count]``."""
    total = wp.float64(0.0)
    for i in range(count):
        total += values[env, i] * values[env, i]
    return total


@wp.func
def sum_of_squared_forces(forces: Any, env: int, count: int, low: wp.float64, high: wp.float64) -> wp.float64:
    """Of all numbers of ``forces[env, :count]``, six each, clipped to [low, high]."""
    total = wp.float64(0.0)
    for i in range(count):
        force = forces[env, i]
        for k in range(6):
            f = wp.clamp(force[k], low, high)
            total += f * f
    return total


@wp.func
def within(value: wp.float64, low: wp.float64, high: wp.float64) -> bool:
    """Strictly."""
    return low < value and value < high


def load_model(options: Mapping[str, Any]) -> Any:
    """The compiled model of ``xml_file``: a path that begins with ``/``, ``.`` or ``~``, or a file of Gymnasium's.

    Raises:
        OptionError: there is no such file.
        ValueError: it cannot be compiled.
    """
    name = options["xml_file"]
    own = name.startswith(("/", ".", "~"))
    path = Path(name).expanduser() if own else _assets() / name
    if not path.is_file():
        hint = "" if own else ": for a file of yours say './FILE.xml' or its whole path"
        raise OptionError(f"xml_file: there is no file {path}{hint}")
    with warnings_dropped():
        return library().MjModel.from_xml_path(str(path))


@contextmanager
def warnings_dropped() -> Iterator[None]:
    """Keep to ourselves that Gymnasium's own models use what MuJoCo calls old; else it says so in a file, too."""
    mujoco = library()
    with _muted:
        spoken = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(spoken)


def _assets() -> Path:
    """Where Gymnasium's package has its models."""
    found = find_spec("gymnasium")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"


def number_of(model: Any, body: int | str) -> int:
    """A body's number, by its name or that; raises `OptionError` where the model has none such."""
    names = [model.body(i).name for i in range(model.nbody)]
    if body in names:
        return names.index(body)
    if isinstance(body, int) and 0 <= body < model.nbody:
        return body
    raise OptionError(f"the model has no body {body!r}: it has {', '.join(names)}")


def check_size(model: Any, nq: int, nv: int, why: str) -> None:
    """Raise `OptionError` where a model of the user's lacks the joints that a task is about."""
    if model.nq < nq or model.nv < nv:
        raise OptionError(
            f"xml_file: the model has {model.nq} positions and {model.nv} velocities, and "
            f"needs at least {nq} and {nv}: {why}"
        )


def ends(options: Mapping[str, Any]) -> dict[str, float]:
    """The ends of all ranges among the options, for the scalar fields of a task's state: ``healthy_z_min``, …"""
    ranges = {name.removesuffix("_range"): value for name, value in options.items() if name.endswith("_range")}
    return {f"{name}_{end}": value[at] for name, value in ranges.items() for at, end in enumerate(ENDS)}


def numbers(*names: str) -> tuple[Field, ...]:
    """Info fields of one float64 each."""
    return tuple(Field(name, np.dtype(np.float64)) for name in names)


def box(size: int) -> gym.spaces.Box:
    """Observations of so many numbers."""
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
