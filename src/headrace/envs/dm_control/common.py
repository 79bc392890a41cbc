"""Code that the suite's domains share: models, spaces, random initial states and shaped rewards.

The rules are those of dm_control's `rl.control`, `suite.utils.randomizers` and `utils.rewards`, and models are
loaded from its package. Tassa et al., "dm_control: Software and Tasks for Continuous Control" (2020),
https://arxiv.org/abs/2006.12983.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

import importlib
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.mujoco import Camera, MujocoEnv, MujocoTask, Streams, normal, uniform
from headrace.pool.executors.mujoco.fields import library

PI = wp.constant(wp.float64(math.pi))
INFINITY = wp.constant(wp.float64(math.inf))
AT_MARGIN = wp.constant(wp.float64(0.1))  # dm_control's default value of a reward at its margin

# mjtJoint
FREE = wp.constant(0)
BALL = wp.constant(1)
SLIDE = wp.constant(2)
HINGE = wp.constant(3)

Sizes = Mapping[str, int | tuple[int, ...] | None]

JOINTS = ("qpos", "jnt_type", "jnt_limited", "jnt_range", "jnt_qposadr")  # fields that `randomize_joints` reads


# ---- tasks --------------------------------------------------------------------------------------


def suite_task(
    env: Callable[[Any, Any], MujocoEnv],
    model: Callable[[Any], Any],
    observation: Sizes | Callable[[Any, Any], Sizes],
    frame_skip: int = 1,
    **options: Any,
) -> MujocoTask:
    """Returns a task of the suite.

    Args:
        env, model: as for `MujocoTask`.
        observation: key → length or shape of the array, None for a scalar; or a function (options, model) that
            returns such a mapping.
        frame_skip: physics steps in an agent step: dm_control's control timestep divided by the model's timestep.
        options: options of this task, in addition to those of all tasks.
    """

    def space(given: Any, compiled: Any) -> gym.spaces.Dict:
        sizes = observation(given, compiled) if callable(observation) else observation
        return gym.spaces.Dict(OrderedDict((key, unbounded(size)) for key, size in sizes.items()))

    given = {"flat_observation": False, **options}
    return MujocoTask(env, model, space, options=given, frame_skip=frame_skip, camera=Camera())


def unbounded(size: int | tuple[int, ...] | None) -> gym.spaces.Box:
    """Returns an unbounded float64 space of this length or shape; None is a scalar."""
    shape = () if size is None else (size,) if isinstance(size, int) else size
    return gym.spaces.Box(-np.inf, np.inf, shape, np.float64)


def suite_env(
    name: str, reads: tuple[str, ...], state: Any, view: Any, reset: Any, step: Any, observe: Any, **rest: Any
) -> MujocoEnv:
    """Returns a `MujocoEnv` with dm_control's order of computation.

    Observations are computed for the state after the last physics step, and the first observation of an episode
    without actuator forces. Parameters are those of `MujocoEnv`.
    """
    return MujocoEnv(name, reads, state, view, reset, step, observe, fresh=True, starts_unactuated=True, **rest)


def suite_model(domain: str, *arguments: Any) -> Any:
    """Returns the compiled model of a domain; ``arguments`` are passed to dm_control's ``get_model_and_assets``."""
    return compiled_model(*suite_module(domain).get_model_and_assets(*arguments))


def compiled_model(xml: str | bytes, assets: Mapping[str, bytes]) -> Any:
    """Returns a model compiled from dm_control's XML, without MuJoCo's warnings about deprecated MJCF in it."""
    mujoco = library()
    speak = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mujoco.MjModel.from_xml_string(xml if isinstance(xml, str) else xml.decode(), dict(assets))
    finally:
        mujoco.set_mju_user_warning(speak)


def suite_module(domain: str) -> Any:
    """Returns dm_control's module of a domain.

    Raises:
        OptionError: dm_control is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # GLFW's, about a missing display
            return importlib.import_module(f"dm_control.suite.{domain}")
    except ImportError as error:
        what = "the models of the suite's tasks come with dm_control"
        raise OptionError(f"{what}: pip install 'headrace[dm-control]' ({error})") from error


# ---- reading and writing arrays -----------------------------------------------------------------


@wp.func
def copy_row(values: Any, env: int, first: int, count: int, seen: wp.array2d[wp.float64], at: int) -> int:
    """Copies ``values[env, first : first + count]`` into ``seen[env, at:]`` and returns the next free index."""
    for i in range(count):
        seen[env, at + i] = values[env, first + i]
    return at + count


@wp.func
def set_row(seen: wp.array2d[wp.float64], env: int, at: int, vector: wp.vec3d):
    """Writes a vector into ``seen[env, at : at + 3]``."""
    for i in range(3):
        seen[env, at + i] = vector[i]


@wp.func
def log1p(x: wp.float64) -> wp.float64:
    """Returns ln(1 + x)."""
    return wp.log(wp.float64(1.0) + x)


@wp.func
def arsinh(x: wp.float64) -> wp.float64:
    """Returns the inverse hyperbolic sine."""
    size = wp.abs(x)
    return wp.sign(x) * wp.log(size + wp.sqrt(size * size + wp.float64(1.0)))


# ---- initial states -----------------------------------------------------------------------------


@wp.func
def randomize_joints(physics: Any, env: int, num_joints: int, streams: Streams):
    """Draws random positions for the joints, except unlimited slide joints; reads `JOINTS`.

    Limited hinge and slide joints are uniform within their limits, unlimited hinge joints in [-π, π). The rotation
    of an unlimited ball joint is uniform; that of a limited one has a random axis and an angle below its limit. A
    free joint keeps its position, and its rotation is a normalized quaternion of four numbers uniform in [0, 1).
    """
    for j in range(num_joints):
        kind = int(physics.jnt_type[env, j])
        limited = int(physics.jnt_limited[env, j]) != 0
        bounds = physics.jnt_range[env, j]
        at = int(physics.jnt_qposadr[env, j])
        if kind == HINGE or kind == SLIDE:  # noqa: SIM109 (Warp has no `in`)
            if limited:
                physics.qpos[env, at] = uniform(streams, env, bounds[0], bounds[1])
            elif kind == HINGE:
                physics.qpos[env, at] = uniform(streams, env, -PI, PI)
        elif kind == BALL:
            turn = random_rotation(streams, env)
            if limited:
                turn = limited_rotation(streams, env, bounds[1])
            set_quaternion(physics.qpos, env, at, turn)
        else:
            set_quaternion(physics.qpos, env, at + 3, positive_rotation(streams, env))


@wp.func
def set_quaternion(qpos: wp.array2d[wp.float64], env: int, at: int, turn: wp.vec4d):
    """Writes a quaternion (w first) into ``qpos[env, at : at + 4]``."""
    for i in range(4):
        qpos[env, at + i] = turn[i]


@wp.func
def random_rotation(streams: Streams, env: int) -> wp.vec4d:
    """Returns a random quaternion (w first), uniform over all rotations."""
    turn = wp.vec4d()
    for i in range(4):
        turn[i] = standard_normal(streams, env)
    return wp.normalize(turn)


@wp.func
def positive_rotation(streams: Streams, env: int) -> wp.vec4d:
    """Returns a random quaternion (w first) of four positive numbers, which is not uniform, as in dm_control."""
    turn = wp.vec4d()
    for i in range(4):
        turn[i] = uniform(streams, env, wp.float64(0.0), wp.float64(1.0))
    return wp.normalize(turn)


@wp.func
def limited_rotation(streams: Streams, env: int, limit: wp.float64) -> wp.vec4d:
    """Returns a quaternion (w first) of a rotation about a random axis by an angle uniform in [0, limit)."""
    axis = wp.vec3d()
    for i in range(3):
        axis[i] = standard_normal(streams, env)
    half = uniform(streams, env, wp.float64(0.0), limit) * wp.float64(0.5)
    axis = wp.normalize(axis) * wp.sin(half)
    return wp.vec4d(wp.cos(half), axis[0], axis[1], axis[2])


@wp.func
def standard_normal(streams: Streams, env: int) -> wp.float64:
    """Returns a normal random number of mean 0 and standard deviation 1."""
    return normal(streams, env, wp.float64(0.0), wp.float64(1.0))


# ---- rewards ------------------------------------------------------------------------------------
#
# dm_control's `tolerance(x, (lower, upper), margin, sigmoid, value_at_margin)` is here
# `sigmoid(excess(x, lower, upper, margin), value_at_margin)`. Sigmoids are 1 at 0 and `value_at_1` at 1.


@wp.func
def within(x: wp.float64, lower: wp.float64, upper: wp.float64) -> wp.float64:
    """Returns 1 if x is within its bounds, else 0: a tolerance without a margin."""
    return wp.where(lower <= x and x <= upper, wp.float64(1.0), wp.float64(0.0))


@wp.func
def excess(x: wp.float64, lower: wp.float64, upper: wp.float64, margin: wp.float64) -> wp.float64:
    """Returns the distance of x from its bounds, in multiples of the margin; 0 within the bounds."""
    if lower <= x and x <= upper:
        return wp.float64(0.0)
    return wp.where(x < lower, lower - x, x - upper) / margin


@wp.func
def gaussian(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns exp(−(s·x)² / 2), with s from ``value_at_1``."""
    scaled = x * wp.sqrt(wp.float64(-2.0) * wp.log(value_at_1))
    return wp.exp(wp.float64(-0.5) * scaled * scaled)


@wp.func
def hyperbolic(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns 1 / cosh(s·x), with s from ``value_at_1``."""
    inverse = wp.float64(1.0) / value_at_1
    scale = wp.log(inverse + wp.sqrt(inverse * inverse - wp.float64(1.0)))  # arcosh
    return wp.float64(1.0) / wp.cosh(x * scale)


@wp.func
def long_tail(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns 1 / ((s·x)² + 1), with s from ``value_at_1``."""
    scaled = x * wp.sqrt(wp.float64(1.0) / value_at_1 - wp.float64(1.0))
    return wp.float64(1.0) / (scaled * scaled + wp.float64(1.0))


@wp.func
def reciprocal(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns 1 / (|x|·s + 1), with s from ``value_at_1``."""
    return wp.float64(1.0) / (wp.abs(x) * (wp.float64(1.0) / value_at_1 - wp.float64(1.0)) + wp.float64(1.0))


@wp.func
def cosine(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns (1 + cos(π·s·x)) / 2 where |s·x| < 1, else 0, with s from ``value_at_1``."""
    scaled = x * wp.acos(wp.float64(2.0) * value_at_1 - wp.float64(1.0)) / PI
    return wp.where(
        wp.abs(scaled) < wp.float64(1.0), (wp.float64(1.0) + wp.cos(PI * scaled)) / wp.float64(2.0), wp.float64(0.0)
    )


@wp.func
def linear(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns 1 − s·x where |s·x| < 1, else 0, with s from ``value_at_1``."""
    scaled = x * (wp.float64(1.0) - value_at_1)
    return wp.where(wp.abs(scaled) < wp.float64(1.0), wp.float64(1.0) - scaled, wp.float64(0.0))


@wp.func
def quadratic(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns 1 − (s·x)² where |s·x| < 1, else 0, with s from ``value_at_1``."""
    scaled = x * wp.sqrt(wp.float64(1.0) - value_at_1)
    return wp.where(wp.abs(scaled) < wp.float64(1.0), wp.float64(1.0) - scaled * scaled, wp.float64(0.0))


@wp.func
def tanh_squared(x: wp.float64, value_at_1: wp.float64) -> wp.float64:
    """Returns 1 − tanh²(s·x), with s from ``value_at_1``."""
    root = wp.sqrt(wp.float64(1.0) - value_at_1)
    scale = wp.log((wp.float64(1.0) + root) / (wp.float64(1.0) - root)) / wp.float64(2.0)  # artanh
    part = wp.tanh(x * scale)
    return wp.float64(1.0) - part * part


@wp.func
def small_control(actions: wp.array2d[wp.float64], env: int, num_actions: int) -> wp.float64:
    """Returns the mean over ``actions[env, :num_actions]`` of max(0, 1 − action²)."""
    total = wp.float64(0.0)
    for i in range(num_actions):
        total += quadratic(actions[env, i], wp.float64(0.0))
    return total / wp.float64(num_actions)
