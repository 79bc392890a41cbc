"""The memory of a pool of a MuJoCo task: arrays with one row for each environment.

It holds all data that persists between steps. Native code and the task's compiled functions receive the arrays'
addresses, so neither allocates memory, and a saved state is a copy of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.pool.batch import INFO, OBS, observation_fields
from headrace.pool.executors.kernels.diagnostics.checks import check_functions, check_structs, view_field
from headrace.pool.executors.kernels.memory import (
    HOST,
    SavedField,
    Table,
    array_fields,
    row_shape,
    saved_fields,
    struct_over,
)
from headrace.pool.executors.kernels.program import FINITE, Bounds
from headrace.pool.executors.kernels.random import Streams
from headrace.pool.executors.mujoco.declared import Declarations, metric_fields
from headrace.pool.executors.mujoco.fields import MjModel, library, varying_rows
from headrace.pool.executors.mujoco.program import MujocoEnv, Outcome, called
from headrace.pool.spec import Field, TaskSpec

SIZES = "nq nv nu na nbody njnt ngeom nsite ntendon nsensordata nmocap".split()
WARNING = Field("physics_warning", np.dtype(np.int32))


Report = tuple[str, list[int], np.ndarray, "np.ndarray | None", int]


class StepOutputs:
    """The observations and info of N environments: arrays, or tensors, [N, …].

    Args:
        env, spec: the task and its spec.
        observation: the space of the observations that the task's functions write.
        shown: the space of a batch's observations without stacking: the same space; or its arrays concatenated into
            one, see `windows`; or pictures.
        hidden: see `checked`.
        means: the means of the task's metrics, arrays [N] by their names in a batch.
        num_envs: N.
        zeros: a function (shape, NumPy dtype) → array of zeros.

    Attributes:
        described: the batch's fields of observation and info, in its order.
        newest: name → [N, …], the latest values.
        stacks: name → [N, depth, …], the stacked observations, oldest first.
        pixels: uint8 [N, 3, height, width], the latest pictures; None if pictures are not observed.
        view: the struct that the task's functions write to.
        warning: int32 [N], see `MujocoExecutor`.
    """

    def __init__(
        self,
        env: MujocoEnv,
        observation: gym.Space,
        shown: gym.Space,
        spec: TaskSpec,
        hidden: tuple[Field, ...],
        means: Mapping[str, Any],
        num_envs: int,
        zeros: Callable[[tuple[int, ...], np.dtype], Any],
    ):
        depth, pictured = spec.options["frame_stack"], spec.options["from_pixels"]

        def rows(fields: Iterable[Field]) -> dict[str, Any]:
            return {f.name: zeros((num_envs, *f.shape), f.dtype) for f in fields}

        infos = (Field(INFO + f.name, f.dtype, f.shape) for f in spec.info)
        self.described = [*observation_fields(spec.observation), *infos]
        self.warning = zeros((num_envs,), WARNING.dtype)
        info = rows([*written_info(env, spec), *hidden])
        seen = rows(observation_fields(shown))
        self.pixels = seen[OBS] if pictured else None
        written = rows(observation_fields(observation)) if pictured else seen | windows(observation, seen)
        told = {INFO + f.name: info.get(env.names.get(f.name, f.name), self.warning) for f in spec.info}
        self.newest = seen | told | dict(means)
        stacked = observation_fields(shown) if depth > 1 else []
        self.stacks = {f.name: zeros((num_envs, depth, *f.shape), f.dtype) for f in stacked}
        # keeps the memory: the view holds addresses only
        self._written = {view_field(env, name): array for name, array in written.items()} | info
        self.view = struct_over(env.view, self._written)

    def reports(self) -> list[Report]:
        """Returns each array in the form that native code takes: name, shape, rows, stack and its depth."""
        reports = []
        for f in self.described:
            stack = self.stacks.get(f.name)
            depth = 1 if stack is None else stack.shape[1]
            reports.append((f.name, list(f.shape), self.newest[f.name], stack, depth))
        return reports


class Memory:
    """The arrays of N environments that run on threads.

    Attributes:
        state, streams, outcome: tables for the compiled functions.
        actions: float64 [N, nu], the actions of the last step.
        varying: name → [N, …], the model's fields that differ between environments.
        seen: observations and info.
        declared: what the task declares.
    """

    def __init__(
        self, env: MujocoEnv, model: MjModel, observation: gym.Space, shown: gym.Space, spec: TaskSpec, num_envs: int
    ):
        n, scalars = num_envs, scalars_of(env, model, spec)
        hidden = checked(env, observation, spec, scalars)
        self.state = Table(env.state, n, env.shapes, scalars, env.tables)
        self.streams = Table(Streams, n)
        self.outcome = Table(Outcome, n)
        self.actions = np.zeros((n, *(spec.action.shape or ())))
        self.declared = Declarations(env, model, n, HOST)
        self.varying = varying_rows(model, env.varies, env.reads, n) | self.declared.varied
        self.seen = StepOutputs(env, observation, shown, spec, hidden, self.declared.means, n, np.zeros)

    def kept(self) -> list[np.ndarray]:
        """Returns the arrays [N, …] of the task's state and the varying model fields, which belong to a saved state."""
        return [*self.state.arrays.values(), *self.varying.values(), *self.declared.kept]

    def kept_fields(self, bounds: Bounds) -> list[SavedField]:
        """Returns the fields of `kept`, with the bounds of the task's state; numbers of a model are finite."""
        varying = [SavedField(name, array.dtype, array.shape[1:], FINITE) for name, array in self.varying.items()]
        counted = [SavedField("counted", array.dtype, (), (0, 2**31 - 1)) for array in self.declared.kept]
        return [*saved_fields(self.state, bounds), *varying, *counted]


def checked(env: MujocoEnv, observation: gym.Space, spec: TaskSpec, scalars: Mapping[str, Any]) -> tuple[Field, ...]:
    """Returns `hidden_fields`; raises `KernelError` if the task's structs, functions and spec do not fit together."""
    single = replace(spec, observation=observation, info=written_info(env, spec))
    hidden = hidden_fields(env, single, scalars)
    kept = {name: shape for name, shape in env.shapes.items() if name in array_fields(env.state)}
    check_structs(replace(env, shapes=kept, actions=None), replace(single, info=(*single.info, *hidden)), scalars)
    check_functions(env, called(env))
    return hidden


def written_info(env: MujocoEnv, spec: TaskSpec) -> tuple[Field, ...]:
    """Returns the info fields that the task's functions write, by their names in the view, each once."""
    own = (*metric_fields(env), WARNING)
    fields = {env.names.get(f.name, f.name): f for f in spec.info if f not in own}
    return tuple(replace(f, name=name) for name, f in fields.items())


def hidden_fields(env: MujocoEnv, spec: TaskSpec, scalars: Mapping[str, Any]) -> tuple[Field, ...]:
    """Returns the view's fields that are neither observation nor info of the task; its functions may write them."""
    shown = {view_field(env, f.name) for f in observation_fields(spec.observation)} | {f.name for f in spec.info}
    return tuple(
        Field(name, np.dtype(wp.dtype_to_numpy(kind.dtype)), row_shape(name, env.shapes, scalars))
        for name, kind in array_fields(env.view).items()
        if name not in shown and wp.types.type_is_scalar(kind.dtype)
    )


def windows(observation: gym.Space, seen: dict[str, Any]) -> dict[str, Any]:
    """Returns name → view [N, …] of the observation's parts within the concatenated array or tensor [N, k].

    The result is empty if the observation is not a `Dict` or is not concatenated.
    """
    if not isinstance(observation, gym.spaces.Dict) or OBS not in seen:
        return {}
    views, at, rows = {}, 0, seen[OBS]
    for f in observation_fields(observation):
        size = math.prod(f.shape)
        views[f.name] = rows[:, at : at + size].reshape(len(rows), *f.shape)
        at += size
    return views


def scalars_of(env: MujocoEnv, model: MjModel, spec: TaskSpec) -> dict[str, Any]:
    """Returns the values of scalars by name, for the scalar fields of the task's state and for extents in shapes."""
    sizes = {name: int(getattr(model, name)) for name in SIZES}
    dt = model.opt.timestep * spec.options["frame_skip"]
    return {**sizes, "dt": dt, "max_episode_steps": spec.max_episode_steps, **env.constants, **spec.options}


def state_components(model: MjModel, rows: np.ndarray, signature: int) -> dict[str, np.ndarray]:
    """Returns views [N, k] of state rows by MuJoCo's names, without empty ones."""
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
