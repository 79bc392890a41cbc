"""Runs a MuJoCo task on the engine's threads.

All memory that outlives a step is made here, as arrays with one row an environment; native code
gets their addresses, and so do the task's compiled functions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.errors import OptionError
from headrace.pool.batch import INFO, OBS, BatchRing, observation_fields
from headrace.pool.executors.kernels.checks import check_functions, check_structs, view_name
from headrace.pool.executors.kernels.launch import Compiled, compiled, load, view_of
from headrace.pool.executors.kernels.memory import Table, array_fields, row_shape, struct_over
from headrace.pool.executors.kernels.mistakes import mistakes_named
from headrace.pool.executors.kernels.random import Streams
from headrace.pool.executors.mujoco.fields import (
    APPLIED,
    FORCES,
    MjData,
    MjModel,
    library,
    physics_over,
    physics_struct,
    varying_rows,
)
from headrace.pool.executors.mujoco.program import MujocoEnv, Outcome, build_kernel, called
from headrace.pool.executors.threads import ThreadsExecutor
from headrace.pool.spec import Field, PoolSettings, TaskSpec

SIZES = "nq nv nu na nbody njnt ngeom nsite ntendon nsensordata nmocap".split()
WARNING = Field("physics_warning", np.dtype(np.int32))


class MujocoExecutor(ThreadsExecutor):
    """Implements `headrace.pool.executor.Executor` for a `MujocoEnv`.

    An environment's simulation is one row of `mujoco.mj_getState`'s numbers; what MuJoCo complains of in a
    step ends the episode, and is in ``info["physics_warning"]``: 0, or 1 + a `mujoco.mjtWarning`.

    Args:
        observation: what the task's functions write.
        shown: what a batch holds of it: the same, or all of it as one array, see `windows`.
    """

    def __init__(
        self,
        env: MujocoEnv,
        model: MjModel,
        observation: gym.Space,
        shown: gym.Space,
        spec: TaskSpec,
        settings: PoolSettings,
        ring: BatchRing,
    ):
        mujoco, native = library(), native_module()
        single = replace(spec, observation=observation, info=tuple(f for f in spec.info if f is not WARNING))
        scalars = scalars_of(env, model, spec)
        hidden = hidden_fields(env, single, scalars)
        kept = {name: shape for name, shape in env.shapes.items() if name in array_fields(env.state)}
        check_structs(replace(env, shapes=kept), replace(single, info=(*single.info, *hidden)), scalars)
        check_functions(env, called(env))
        n = settings.num_envs
        data = mujoco.MjData(model)
        self._varying = varying_rows(model, env.varies, env.reads, n)
        self._state = Table(env.state, n, "cpu", env.shapes, scalars, env.tables)
        self._streams = Table(Streams, n, "cpu")
        self._outcome = Table(Outcome, n, "cpu")
        self._actions = np.zeros((n, model.nu))
        self._warning = np.zeros(n, np.int32)
        described = [*observation_fields(shown), *(Field(INFO + f.name, f.dtype, f.shape) for f in spec.info)]
        self._newest = {f.name: np.zeros((n, *f.shape), f.dtype) for f in described}
        self._newest[INFO + WARNING.name] = self._warning
        depth = spec.options["frame_stack"]
        self._stacks = {f.name: np.zeros((n, depth, *f.shape), f.dtype) for f in observation_fields(shown) if depth > 1}
        self._written = self._newest | windows(observation, self._newest)
        self._written |= {f.name: np.zeros((n, *f.shape), f.dtype) for f in hidden}
        self._call = self._compile(env, model, data)
        keeps_forces = any(name in env.reads for name in APPLIED)
        self._physics = native.Physics(
            model=model._address,
            function=self._call.function,
            bounds=self._call.bounds,
            arguments=self._call.arguments,
            env_id=self._call.offset("env_id"),
            command=self._call.offset("command"),
            arrays=[(self._call.offset("physics", f), f) for f in env.reads if f not in env.varies],
            varying=list(self._varying.items()),
            keeps_forces=keeps_forces,
        )
        size = mujoco.mj_stateSize(model, self._physics.signature)
        self._rows = np.zeros((n, size))
        self._components = state_components(model, self._rows, self._physics.signature)
        simulator = native.simulator(
            physics=self._physics,
            state=self._rows,
            actions=self._actions,
            **self._outcome.arrays,
            warning=self._warning,
            **self._streams.arrays,
            kept=[*self._state.arrays.values(), *self._varying.values()],
            reports=[self._report(f, depth) for f in described],
            frame_skip=spec.frame_skip,
            kinematics=env.fresh,
            forces=any(name in env.reads for name in FORCES),
            acts=env.act is not None,
            may_refuse=env.accept is not None,
            settling_steps=env.settling_steps,
            starts_unactuated=env.starts_unactuated,
        )
        super().__init__(native, simulator, spec, settings, ring)

    def state_arrays(self) -> dict[str, np.ndarray]:
        """The simulations' state by MuJoCo's names (``qpos``, ``qvel``, …), and the task's own."""
        return {**self._components, **self._state.arrays}

    def _report(self, field: Field, depth: int) -> tuple[str, str, list[int], np.ndarray, np.ndarray | None, int]:
        """What native code needs to know of an array that is shown."""
        stack = self._stacks.get(field.name)
        shape = field.shape if stack is None else (depth, *field.shape)
        newest = self._newest[field.name]
        return field.name, field.dtype.name, list(shape), newest, stack, 1 if stack is None else depth

    def _compile(self, env: MujocoEnv, model: MjModel, data: MjData) -> Compiled:
        struct = physics_struct(model, data, env.reads)
        physics = physics_over(struct, model, data, len(self._actions), self._varying)
        kernel = build_kernel(env, struct)
        view = struct_over(env.view, {view_name(name): array for name, array in self._written.items()})
        actions = view_of(self._actions, wp.float64)
        arguments = [physics, self._state.struct, self._streams.struct, actions, self._outcome.struct, view, 0, 0]
        with mistakes_named(env):
            load(kernel, "cpu", 1)
            return compiled(kernel, arguments)


def hidden_fields(env: MujocoEnv, spec: TaskSpec, scalars: dict[str, Any]) -> tuple[Field, ...]:
    """Fields of the view that this task does not show; its functions may write them all the same."""
    shown = {view_name(f.name) for f in (*observation_fields(spec.observation), *spec.info)}
    return tuple(
        Field(name, np.dtype(wp.dtype_to_numpy(kind.dtype)), row_shape(name, env.shapes, scalars))
        for name, kind in array_fields(env.view).items()
        if name not in shown and wp.types.type_is_scalar(kind.dtype)
    )


def windows(observation: gym.Space, newest: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays [N, …] of an observation by name, where one array [N, k] holds all of them, one behind the other."""
    if not isinstance(observation, gym.spaces.Dict) or OBS not in newest:
        return {}
    views, at, rows = {}, 0, newest[OBS]
    for f in observation_fields(observation):
        size = math.prod(f.shape)
        views[f.name] = rows[:, at : at + size].reshape(len(rows), *f.shape)
        at += size
    return views


def state_components(model: MjModel, rows: np.ndarray, signature: int) -> dict[str, np.ndarray]:
    """Views [N, k] of state rows, by MuJoCo's names; those of no numbers left out."""
    mujoco = library()
    views, at = {}, 0
    for kind in mujoco.mjtState.__members__.values():
        bit = int(kind)
        if bit & signature and bit.bit_count() == 1:
            size = mujoco.mj_stateSize(model, bit)
            if size:
                views[kind.name.removeprefix("mjSTATE_").lower()] = rows[:, at : at + size]
            at += size
    return views


def scalars_of(env: MujocoEnv, model: MjModel, spec: TaskSpec) -> dict[str, Any]:
    """What the scalar fields of the task's state may be, and names in its shapes stand for."""
    sizes = {name: int(getattr(model, name)) for name in SIZES}
    dt = model.opt.timestep * spec.frame_skip
    return {**sizes, "dt": dt, "max_episode_steps": spec.max_episode_steps, **env.constants, **spec.options}


def native_module() -> ModuleType | Any:
    """The compiled module; raises `OptionError` where it cannot be used."""
    library()  # its own library must be there first
    try:
        return import_module("headrace.pool.executors.mujoco._mujoco")
    except ImportError as error:
        raise OptionError(
            f"MuJoCo tasks need the compiled module headrace.pool.executors.mujoco._mujoco: {error}. "
            "It fits the version of mujoco that was there when headrace was installed"
        ) from error
