"""What a task of a robot declares rather than programs: servos as actions, metrics, and random fields of the model.

The functions here run in the task's kernel, over numbers in a struct that the author's functions do not see.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.errors import KernelError
from headrace.pool.batch import INFO
from headrace.pool.executors.kernels.memory import struct_over
from headrace.pool.executors.kernels.random import Streams, uniform
from headrace.pool.executors.mujoco.fields import MjModel, keyframe_of, library
from headrace.pool.executors.mujoco.randomise import fields_of, tables_of
from headrace.pool.spec import Field

EPISODE = "episode_"
"""what the names of info fields begin with that are means over an episode"""


@wp.struct
class Declared:
    """Numbers of a task's declarations.

    ``home`` and ``scale`` [nu] and ``clip`` are those of `Servo`; ``means`` [M, N] are the metrics' means over the
    steps since the episode began, which are ``counted`` [N]; ``rows`` are the values of random fields, and the rest is
    what `headrace.pool.executors.mujoco.randomise.tables_of` returns.
    """

    home: wp.array[wp.float64]
    scale: wp.array[wp.float64]
    clip: wp.float64
    means: wp.array2d[wp.float64]
    counted: wp.array[wp.int32]
    rows: wp.array[wp.float64]
    first: wp.array[wp.int32]
    step: wp.array[wp.int32]
    base: wp.array[wp.float64]
    slope: wp.array[wp.float64]
    low: wp.array[wp.float64]
    high: wp.array[wp.float64]
    anew: wp.array[wp.bool]


@dataclass(frozen=True, eq=False)
class Servo:
    """Actions in [-1, 1] that are targets of position servos: ``home + scale * action``, one for each actuator.

    Attributes:
        home: the targets of an action of zeros, [nu]; by default the controls of the keyframe that the task starts
            from, or where these are zero or there is none, the positions of the actuators' joints at the start.
        scale: a number, or one for each actuator, [nu], in the joint's unit.
        clip: the greatest size of an action; what is beyond is cut. By default nothing is.
    """

    home: Any = None
    scale: Any = 1.0
    clip: float = np.inf


class Metric(NamedTuple):
    """One number whose mean over an episode is reported: its name, the info field that it is in, and the column."""

    name: str
    field: str
    column: int | None


# -- actions -------------------------------------------------------------------------------------


@wp.func
def aim(declared: Declared, physics: Any, env: int, actions: wp.array2d[wp.float64]):
    """Sets the targets of all servos."""
    for i in range(declared.home.shape[0]):
        action = wp.clamp(actions[env, i], -declared.clip, declared.clip)
        physics.ctrl[env, i] = declared.home[i] + declared.scale[i] * action


def action_space(env: Any, model: MjModel) -> gym.spaces.Box:
    """Returns the space of a task's actions, float64 [k], by default the actuators' control ranges.

    These are unbounded where the model sets none.

    Raises:
        KernelError: what the task declares as its actions is not valid.
    """
    given = env.actions
    if given is None:
        limited = model.actuator_ctrllimited.astype(bool)
        low = np.where(limited, model.actuator_ctrlrange[:, 0], -np.inf)
        high = np.where(limited, model.actuator_ctrlrange[:, 1], np.inf)
        return gym.spaces.Box(low, high, dtype=np.float64)
    if isinstance(given, Servo):
        if env.act is not None:
            raise KernelError(f"{env.name}: actions=Servo(…) sets the controls, and so does act: leave one of them out")
        servo_numbers(env, model)
        return gym.spaces.Box(-1.0, 1.0, (model.nu,), np.float64)
    if not (isinstance(given, gym.spaces.Box) and len(given.shape) == 1 and given.dtype.kind == "f"):
        raise KernelError(f"{env.name}: actions must be a Servo, or a Box of floats of one dimension, not {given}")
    if env.act is None:
        raise KernelError(f"{env.name}: actions={given} needs act, which turns these actions into physics.ctrl")
    return gym.spaces.Box(given.low.astype(np.float64), given.high.astype(np.float64), dtype=np.float64)


def acts(env: Any) -> bool:
    """Returns whether the task's kernel turns actions into controls; otherwise they are the controls."""
    return env.act is not None or isinstance(env.actions, Servo)


def servo_numbers(env: Any, model: MjModel) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns home, scale, float64 [nu], and clip of a task's servos; empty arrays if it has none.

    Raises:
        KernelError: they do not fit the model; the message says why.
    """
    if not isinstance(servo := env.actions, Servo):
        return np.zeros(0), np.zeros(0), 0.0
    for i in range(model.nu):
        affine = model.actuator_biastype[i] == int(library().mjtBias.mjBIAS_AFFINE)
        if not (affine and model.actuator_biasprm[i, 1] < 0):
            name = model.actuator(i).name or f"number {i}"
            raise KernelError(f"{env.name}: actions=Servo(…), but actuator {name} is no position servo")
    home = _home(env, model) if servo.home is None else servo.home
    numbers = {}
    for name, value in (("home", home), ("scale", servo.scale)):
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or array.shape not in ((model.nu,), () if name == "scale" else (model.nu,)):
            raise KernelError(
                f"{env.name}: Servo's {name} must be {'a number or ' * (name == 'scale')}{model.nu} numbers, one for "
                f"each actuator, not {value!r}"
            )
        numbers[name] = np.array(np.broadcast_to(array, model.nu), np.float64)
    if not servo.clip > 0:
        raise KernelError(f"{env.name}: Servo's clip must be a number above 0, not {servo.clip!r}")
    return numbers["home"], numbers["scale"], float(servo.clip)


def _home(env: Any, model: MjModel) -> np.ndarray:
    """Returns the targets at which the servos hold the start, float64 [nu]."""
    key = keyframe_of(model, env.start)
    if key >= 0 and model.key_ctrl[key].any():
        return model.key_ctrl[key]
    positions, home = model.key_qpos[key] if key >= 0 else model.qpos0, np.zeros(model.nu)
    at_joint = (int(library().mjtTrn.mjTRN_JOINT), int(library().mjtTrn.mjTRN_JOINTINPARENT))
    single = (int(library().mjtJoint.mjJNT_HINGE), int(library().mjtJoint.mjJNT_SLIDE))
    for i, joint in enumerate(model.actuator_trnid[:, 0]):
        if model.actuator_trntype[i] not in at_joint or model.jnt_type[joint] not in single:
            name = model.actuator(i).name or f"number {i}"
            raise KernelError(f"{env.name}: actuator {name} moves no hinge or slide: give Servo(home=…)")
        home[i] = positions[model.jnt_qposadr[joint]] * model.actuator_gear[i, 0]
    return home


# -- random fields of the model ------------------------------------------------------------------


@wp.func
def vary(declared: Declared, env: int, streams: Streams):
    """Draws the values of an environment's random fields."""
    drawn = wp.float64(0.0)
    for i in range(declared.base.shape[0]):
        if declared.anew[i]:
            drawn = uniform(streams, env, declared.low[i], declared.high[i])
        declared.rows[declared.first[i] + env * declared.step[i]] = declared.base[i] + declared.slope[i] * drawn


# -- metrics -------------------------------------------------------------------------------------


def metrics_of(env: Any) -> tuple[Metric, ...]:
    """Returns the numbers whose means over an episode a task reports."""
    given = env.metrics
    if isinstance(given, Mapping):
        named = [(field, tuple(names)) for field, names in given.items()]
    else:
        named = [(field, ()) for field in given]
    found = []
    for field, names in named:
        found += [Metric(name, field, i) for i, name in enumerate(names)] or [Metric(field, field, None)]
    return tuple(found)


def metric_fields(env: Any) -> tuple[Field, ...]:
    """Returns the info fields that are the means of a task's metrics since the episode began."""
    return tuple(Field(EPISODE + metric.name, np.dtype(np.float64)) for metric in metrics_of(env))


def check_metrics(env: Any, info: tuple[Field, ...]) -> None:
    """Raises `KernelError` if a metric is in no info field of the task, or has a name that another one has."""
    if isinstance(env.metrics, str):
        raise KernelError(f"{env.name}: metrics must be a tuple of names, not {env.metrics!r}")
    known = {f.name: f for f in info}
    names = {*known}
    for metric in metrics_of(env):
        field, told = known.get(metric.field), f"{env.name}: metrics names {metric.field!r}"
        if field is None:
            raise KernelError(f"{told}, which is no info field; there is {', '.join(known) or 'none'}")
        width = sum(other.field == metric.field for other in metrics_of(env))
        if field.shape != (() if metric.column is None else (width,)):
            raise KernelError(
                f"{told}, of shape {field.shape} for each environment: a number needs no names, and a row of them one "
                f"for each: metrics={{{metric.field!r}: (…)}}"
            )
        if EPISODE + metric.name in names:
            raise KernelError(f"{env.name}: two info fields would have the name {EPISODE + metric.name!r}")
        names.add(EPISODE + metric.name)


def tally_of(env: Any) -> Any:
    """Returns the Warp function that adds a step to the means of a task's metrics."""
    places = [(env.names.get(metric.field, metric.field), metric.column) for metric in metrics_of(env)]
    return _tally(tuple(f"{field}[env]" if column is None else f"{field}[env, {column}]" for field, column in places))


@functools.cache
def _tally(places: tuple[str, ...]) -> Any:
    """Returns the function for these places in a view; cached, so that equal tasks share a compiled kernel.

    Warp reads a function's source, and a field's name is part of it: it is therefore written here.
    """
    lines = [
        "def tally(declared, view, env):",
        "    count = declared.counted[env] + 1",
        "    declared.counted[env] = count",
    ]
    for i, place in enumerate(places):
        mean = f"declared.means[{i}, env]"
        lines.append(f"    {mean} = {mean} + (wp.float64(view.{place}) - {mean}) / wp.float64(count)")
    file, scope = f"<metrics {', '.join(places)}>", {"wp": wp}
    linecache.cache[file] = (0, None, [line + "\n" for line in lines], file)
    exec(compile("\n".join(lines), file, "exec"), scope)
    tally: Any = scope["tally"]
    tally.__annotations__ = {"declared": Declared, "view": Any, "env": int}
    return wp.func(tally)


# -- memory --------------------------------------------------------------------------------------


class Declarations:
    """The memory of what a task of N environments declares, NumPy's or torch's.

    Attributes:
        struct: the numbers as the kernel takes them.
        arrays: its arrays by name.
        means: name in a batch → the metric's means, float64 [N].
        varied: name of a random field of the model → its values, float64 [N, …].
        kept: what belongs to a saved state beside the means, arrays [N].
    """

    def __init__(self, env: Any, model: MjModel, num_envs: int, memory: Any):
        home, scale, clip = servo_numbers(env, model)
        fields = metric_fields(env)
        counted = memory.zeros((num_envs,), np.int32)
        means = memory.zeros((len(fields), num_envs), np.float64)
        self.arrays = {"means": means, "counted": counted}
        tables = {"home": home, "scale": scale, **tables_of(env.name, env.randomise, model, num_envs)}
        own = {name: getattr(model, name) for name in fields_of(env.randomise)}
        tables["rows"] = np.concatenate([np.zeros(0), *(np.tile(field.ravel(), num_envs) for field in own.values())])
        for name, values in tables.items():
            self.arrays[name] = memory.zeros(values.shape, values.dtype)
            memory.put(self.arrays[name], values)
        self.varied, at = {}, 0
        for name, field in own.items():
            end = at + field.size * num_envs
            self.varied[name], at = self.arrays["rows"][at:end].reshape(num_envs, *field.shape), end
        self.struct = struct_over(Declared, self.arrays)
        self.struct.clip = clip
        self.kept = [counted] if fields else []
        self.means = {INFO + f.name: row for f, row in zip(fields, means, strict=True)}
