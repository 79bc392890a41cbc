"""Functions that Gymnasium's MuJoCo tasks share: loading of models, initial states, and parts of observations.

The tasks reproduce those of `gymnasium.envs.mujoco` (Farama Foundation), with its names of options and info
fields, and load the models from its package.
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

_muted = Lock()  # MuJoCo's warning handler is global


@wp.func
def add_uniform(values: Any, env: int, count: int, scale: wp.float64, streams: Streams):
    """Adds to each of ``values[env, :count]`` a random number, uniform in [-scale, scale)."""
    for i in range(count):
        values[env, i] = values[env, i] + uniform(streams, env, -scale, scale)


@wp.func
def add_normal(values: Any, env: int, count: int, scale: wp.float64, streams: Streams):
    """Adds to each of ``values[env, :count]`` a normal random number of standard deviation ``scale``."""
    for i in range(count):
        values[env, i] = normal(streams, env, wp.float64(values[env, i]), scale)


@wp.func
def start_uniform(physics: Any, state: Any, env: int, streams: Streams):
    """Adds uniform noise to the model's initial positions and velocities."""
    add_uniform(physics.qpos, env, state.nq, state.reset_noise_scale, streams)
    add_uniform(physics.qvel, env, state.nv, state.reset_noise_scale, streams)


@wp.func
def start_normal(physics: Any, state: Any, env: int, streams: Streams):
    """Adds uniform noise to the model's initial positions and normal noise to its velocities."""
    add_uniform(physics.qpos, env, state.nq, state.reset_noise_scale, streams)
    add_normal(physics.qvel, env, state.nv, state.reset_noise_scale, streams)


@wp.func
def copy_row(values: Any, env: int, first: int, count: int, obs: wp.array2d[wp.float64], at: int) -> int:
    """Copies ``values[env, first:count]`` into ``obs[env, at:]`` and returns the next free index."""
    for i in range(first, count):
        obs[env, at + i - first] = values[env, i]
    return at + count - first


@wp.func
def copy_clipped(values: Any, env: int, count: int, most: wp.float64, obs: wp.array2d[wp.float64], at: int) -> int:
    """Copies ``values[env, :count]``, clipped to [-most, most], into ``obs[env, at:]``; returns the next free index."""
    for i in range(count):
        obs[env, at + i] = wp.clamp(values[env, i], -most, most)
    return at + count


@wp.func
def copy_vectors(
    values: Any, env: int, first: int, count: int, width: int, obs: wp.array2d[wp.float64], at: int
) -> int:
    """Copies ``values[env, first:count]``, vectors of length ``width``, into ``obs[env, at:]``.

    Returns the next free index.
    """
    for i in range(first, count):
        vector = values[env, i]
        for k in range(width):
            obs[env, at + (i - first) * width + k] = vector[k]
    return at + (count - first) * width


@wp.func
def sum_of_squares(values: wp.array2d[wp.float64], env: int, count: int) -> wp.float64:
    """Returns the sum of the squares of ``values[env, :count]``."""
    total = wp.float64(0.0)
    for i in range(count):
        total += values[env, i] * values[env, i]
    return total


@wp.func
def sum_of_squared_forces(forces: Any, env: int, count: int, low: wp.float64, high: wp.float64) -> wp.float64:
    """Returns the sum of the squares of ``forces[env, :count]``, six components each, clipped to [low, high]."""
    total = wp.float64(0.0)
    for i in range(count):
        force = forces[env, i]
        for k in range(6):
            f = wp.clamp(force[k], low, high)
            total += f * f
    return total


@wp.func
def within(value: wp.float64, low: wp.float64, high: wp.float64) -> bool:
    """Returns whether ``value`` is in the open interval (low, high)."""
    return low < value and value < high


def load_model(options: Mapping[str, Any], folder: Path | None = None) -> Any:
    """Returns the compiled model, a `mujoco.MjModel`, of the option ``xml_file``, as `model_path` finds it.

    Raises:
        OptionError: the file does not exist.
        ValueError: the model cannot be compiled.
    """
    path = model_path(options, folder)
    with warnings_dropped():
        return library().MjModel.from_xml_path(str(path))


def model_path(options: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Returns the file of the option ``xml_file``.

    The option is a path if it begins with ``/``, ``.`` or ``~``, and otherwise the name of a file in ``folder``, which
    is that of Gymnasium's models unless another is given.

    Raises:
        OptionError: the file does not exist.
    """
    name = options["xml_file"]
    own = name.startswith(("/", ".", "~"))
    path = Path(name).expanduser() if own else (folder or _assets()) / name
    if not path.is_file():
        hint = "" if own else ": for a file of yours say './FILE.xml' or its whole path"
        raise OptionError(f"xml_file: there is no file {path}{hint}")
    return path


@contextmanager
def warnings_dropped() -> Iterator[None]:
    """Suppresses MuJoCo's warnings, which it would also write to a log file: Gymnasium's models use deprecated MJCF."""
    mujoco = library()
    with _muted:
        spoken = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(spoken)


def _assets() -> Path:
    """Returns the folder of Gymnasium's models."""
    found = find_spec("gymnasium")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"


def number_of(model: Any, body: int | str) -> int:
    """Returns the number of the body with this name or number.

    Raises:
        OptionError: the model has no such body.
    """
    names = [model.body(i).name for i in range(model.nbody)]
    if body in names:
        return names.index(body)
    if isinstance(body, int) and 0 <= body < model.nbody:
        return body
    raise OptionError(f"the model has no body {body!r}: it has {', '.join(names)}")


def check_size(model: Any, nq: int, nv: int, why: str) -> None:
    """Checks that a model has the joints that a task needs.

    Raises:
        OptionError: the model has fewer than ``nq`` positions or ``nv`` velocities; ``why`` says what these are.
    """
    if model.nq < nq or model.nv < nv:
        raise OptionError(
            f"xml_file: the model has {model.nq} positions and {model.nv} velocities, and "
            f"needs at least {nq} and {nv}: {why}"
        )


def ends(options: Mapping[str, Any]) -> dict[str, float]:
    """Returns both ends of each range among the options, by the names of the state's fields: ``healthy_z_min``, …"""
    ranges = {name.removesuffix("_range"): value for name, value in options.items() if name.endswith("_range")}
    return {f"{name}_{end}": value[at] for name, value in ranges.items() for at, end in enumerate(ENDS)}


def numbers(*names: str) -> tuple[Field, ...]:
    """Returns scalar float64 info fields of these names."""
    return tuple(Field(name, np.dtype(np.float64)) for name in names)


def box(size: int) -> gym.spaces.Box:
    """Returns the unbounded observation space float64[size]."""
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
