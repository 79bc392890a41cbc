"""Runs the first steps of a new MuJoCo task with interpreted functions, over MuJoCo's own memory.

See `headrace.pool.executors.kernels.diagnostics.first_steps`, which does the same for kernel environments.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp
from numpy.lib.stride_tricks import as_strided

from headrace.pool.batch import observation_fields
from headrace.pool.executors.kernels.diagnostics.checked import NUMPY, Array, Record
from headrace.pool.executors.kernels.diagnostics.checks import view_field
from headrace.pool.executors.kernels.diagnostics.first_steps import SECONDS, STEPS, RandomActions, play_new
from headrace.pool.executors.kernels.diagnostics.interpret import as_python
from headrace.pool.executors.kernels.diagnostics.mistakes import mistakes_named
from headrace.pool.executors.kernels.diagnostics.rows import (
    InvalidResultError,
    OutOfBoundsError,
    check_seen,
    check_set,
    failure_of,
)
from headrace.pool.executors.kernels.launch import load
from headrace.pool.executors.kernels.memory import HOST, array_fields, row_shape, scalar_fields
from headrace.pool.executors.kernels.random import Streams
from headrace.pool.executors.mujoco.declared import Declarations, Declared, acts, servo_numbers, vary
from headrace.pool.executors.mujoco.fields import (
    SENSOR,
    SINGLE,
    MjData,
    MjModel,
    Sensor,
    begin,
    field_array,
    field_dtype,
    keyframe_of,
    library,
    saved,
    sensors_of,
    speechless,
)
from headrace.pool.executors.mujoco.memory import hidden_fields, scalars_of, written_info
from headrace.pool.executors.mujoco.program import MujocoEnv, called, draws
from headrace.pool.spec import TaskSpec, subspaces

NUM_ENVS = 2
MOST_STARTS = 100


def load_and_try(
    env: MujocoEnv, model: MjModel, observation: gym.Space, spec: TaskSpec, kernel: Any, device: str, block_dim: int
) -> None:
    """Compiles a MuJoCo task's functions, and runs their first steps unless this version has passed before.

    Args:
        env: the task.
        model: its model.
        observation: the space of the observations that its functions write.
        spec: the task's spec.
        kernel: its kernel, from `headrace.pool.executors.mujoco.program`.
        device, block_dim: the device and the number of threads of a block for which the kernel is compiled.

    Raises:
        KernelError: the functions do not compile, or contain a mistake that compiled code would not report; the
            message names the author's line.
    """
    with mistakes_named(env):
        load(kernel, device, block_dim, spec.task)
    functions = [function for function, _ in called(env)]
    play = lambda: _Play(env, model, observation, spec).run()  # noqa: E731
    play_new(env, spec, functions, (kernel, block_dim), play, lambda: saved(model))


class _Play:
    """A few environments, each with its own simulation and model, and their random play."""

    def __init__(self, env: MujocoEnv, model: MjModel, observation: gym.Space, spec: TaskSpec):
        mujoco = library()
        self._env, self._spec, self._turn = env, spec, 0
        self._keyframe = keyframe_of(model, env.start)
        self._models = [copy.deepcopy(model) for _ in range(NUM_ENVS)]
        self._datas = [mujoco.MjData(own) for own in self._models]
        scalars = scalars_of(env, model, spec)
        self._state = _record("state", env.state, scalars, self._state_arrays(scalars), self._own, env.tables)
        counts = np.arange(NUM_ENVS, dtype=np.uint64)
        streams = {"seed": (counts, None), "drawn": (np.zeros_like(counts), None)}
        self._streams = _record("streams", Streams, {}, streams, self._own)
        width = spec.action.shape or ()
        self._actions = Array("actions", np.zeros((NUM_ENVS, *width)), wp.float64, self._own)
        self._home, self._scale, self._clip = servo_numbers(env, model)
        self._declared = Declarations(env, model, NUM_ENVS, HOST)
        numbers = {name: (array, None) for name, array in self._declared.arrays.items()}
        self._numbers = _record("declared", Declared, {"clip": self._clip}, numbers, self._own, numbers)
        seen, info = observation_fields(observation), written_info(env, spec)
        hidden = hidden_fields(env, replace(spec, observation=observation, info=info), scalars)
        names = [view_field(env, f.name) for f in seen]
        fields = dict(zip((*names, *(f.name for f in (*info, *hidden))), (*seen, *info, *hidden), strict=True))
        shapes = {name: (NUM_ENVS, *f.shape) for name, f in fields.items()}
        arrays = {name: (np.zeros(shape, fields[name].dtype), _unknown(shape)) for name, shape in shapes.items()}
        self._view = _record("view", env.view, {}, arrays, self._own)
        self._spaces = dict(zip(names, subspaces(observation).values(), strict=True))
        self._info = [f.name for f in info]
        self._random = RandomActions(spec)
        self._elapsed = [0] * NUM_ENVS

    def run(self) -> None:
        """Steps all environments in turn, with occasional resets; raises `EnvironmentFailure`."""
        began = time.perf_counter()
        with speechless(), np.errstate(all="ignore"):
            for step in range(-1, STEPS):
                for i in range(NUM_ENVS):
                    self._turn = i
                    try:
                        over = step < 0 or (step + 3 * i) % 16 == 12 or self._step(i)
                        if over:
                            self._reset(i)
                    except Exception as error:
                        raise failure_of(self._spec.task, i, error) from error
                if time.perf_counter() - began > SECONDS:
                    return

    def _reset(self, i: int) -> None:
        mujoco, env, model, data = library(), self._env, self._models[i], self._datas[i]
        for name in (*self._spaces, *self._info):
            getattr(self._view, name).known[i] = False
        for _ in range(MOST_STARTS):
            begin(model, data, self._keyframe)
            as_python(vary)(self._numbers, np.int32(i), self._streams)
            for name, rows in self._declared.varied.items():
                getattr(model, name)[:] = rows[i]
            self._call(env.reset, i)
            mujoco.mj_forward(model, data)
            if env.accept is None or self._call(env.accept, i):
                break
        for _ in range(env.settling_steps):
            mujoco.mj_step(model, data)
        self._elapsed[i] = 0
        self._observe(i)

    def _step(self, i: int) -> bool:
        """Takes a step of environment i; returns whether its episode is over."""
        mujoco, env, model, data = library(), self._env, self._models[i], self._datas[i]
        self._actions.values[i] = self._random.draw([i])[0]
        if env.act is not None:
            self._call(env.act, i, self._actions)
        elif acts(env):
            data.ctrl[:] = self._home + self._scale * self._actions.values[i].clip(-self._clip, self._clip)
        else:
            data.ctrl[:] = self._actions.values[i]
        for _ in range(self._spec.options["frame_skip"]):
            mujoco.mj_step(model, data)
        if any(warning.number for warning in data.warning):
            return True
        if env.fresh:
            mujoco.mj_forward(model, data)
        mujoco.mj_rnePostConstraint(model, data)
        reward, terminated = self._call(env.step, i, self._actions, self._view)
        if not np.isfinite(reward):
            raise InvalidResultError(env.step, f"the reward is {reward}")
        self._observe(i)
        for name in self._info:
            check_set(env.observe, getattr(self._view, name), i, "env")
        self._elapsed[i] += 1
        return bool(terminated) or self._elapsed[i] == self._spec.max_episode_steps

    def _observe(self, i: int) -> None:
        self._call(self._env.observe, i, self._view)
        for name, space in self._spaces.items():
            array = getattr(self._view, name)
            check_set(self._env.observe, array, i, "env")
            with contextlib.suppress(OutOfBoundsError):  # conformance checks report it
                check_seen(self._env.observe, name, array.values[i], space, "env")

    def _call(self, function: Any, i: int, *more: Any) -> Any:
        streams = [self._streams] if draws(function) else []
        return as_python(function)(self._physics(i), self._state, np.int32(i), *more, *streams)

    def _own(self) -> tuple[str, int]:
        return "environment", self._turn

    def _physics(self, i: int) -> Record:
        """Returns MuJoCo's fields of one environment in the form that interpreted functions take."""
        model, data = self._models[i], self._datas[i]
        arrays = {name: _field(model, data, name, self._own) for name in self._env.reads}
        sensors = {s.name: _sensor(data, s, self._own) for s in sensors_of(model, self._env.sensors)}
        return Record("Physics", {**arrays, **({SENSOR: Record("Sensors", sensors)} if sensors else {})})

    def _state_arrays(self, scalars: Mapping[str, Any]) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
        """Returns name → (array, mask of the elements that have been set).

        For a task with `accept`, whose `reset` may run repeatedly for one start, the arrays count as set: they hold
        zeros first, and then the values of the previous attempt.
        """
        arrays: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
        for name, kind in array_fields(self._env.state).items():
            if name in self._env.tables:
                arrays[name] = (np.array(self._env.tables[name]), None)
                continue
            number = np.dtype(wp.dtype_to_numpy(getattr(kind.dtype, "_wp_scalar_type_", kind.dtype)))
            inner = getattr(kind.dtype, "_shape_", ())
            shape = (NUM_ENVS, *row_shape(name, self._env.shapes, scalars), *inner)
            arrays[name] = (np.zeros(shape, number), _unknown(shape) if self._env.accept is None else None)
        return arrays


def _unknown(shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, np.bool_)


def _record(
    name: str,
    struct: Any,
    scalars: Mapping[str, Any],
    arrays: Mapping[str, tuple[np.ndarray, np.ndarray | None]],
    owner: Any,
    shared: Container[str] = (),
) -> Record:
    """Returns an instance of a `warp.struct` for interpreted functions, over arrays and masks of their set elements.

    Arrays named in ``shared`` have no row for each environment.
    """
    fields: dict[str, Any] = {}
    for field, kind in array_fields(struct).items():
        values, known = arrays[field]
        fields[field] = Array(f"{name}.{field}", values, kind.dtype, None if field in shared else owner, known)
    for field in scalar_fields(struct):
        kind = struct.vars[field].type
        fields[field] = NUMPY[kind](scalars[field]) if kind in NUMPY else scalars[field]
    return Record(struct.key, fields)


def _field(model: MjModel, data: MjData, name: str, owner: Any) -> Array:
    """Returns a field of MuJoCo with a first index for the environment; all its values refer to the same memory."""
    array = field_array(model, data, name)
    dtype = field_dtype(name, array)
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    if name in SINGLE:
        return Array(f"physics.{name}", as_strided(array, (NUM_ENVS,), (0,)), dtype, owner)
    if array.ndim == 2:
        array = array.reshape(len(array), *dtype._shape_)
    rows = as_strided(array, (NUM_ENVS, *array.shape), (0, *array.strides))
    return Array(f"physics.{name}", rows, dtype, owner)


def _sensor(data: MjData, sensor: Sensor, owner: Any) -> Array:
    """Returns a sensor's numbers with a first index for the environment, as `_field` does."""
    row = data.sensordata[sensor.first : sensor.first + sensor.size]
    shape = () if sensor.size == 1 else (sensor.size,)
    rows = as_strided(row, (NUM_ENVS, *shape), (0, *row.strides[: len(shape)]))
    return Array(f"physics.{SENSOR}.{sensor.name}", rows, sensor.kind.dtype, owner)
