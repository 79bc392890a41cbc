"""Builds the kernel that an executor launches from an environment's functions, for one agent or many."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import warp as wp

from headrace.errors import KernelError
from headrace.pool.actions import ACTION, action_fields
from headrace.pool.executors.kernels.agents import (
    AgentsOutcome,
    MultiAgentEnv,
    block_for,
    build_agents_kernel,
    lanes_for,
)
from headrace.pool.executors.kernels.diagnostics.mistakes import alike, described, mistake_in
from headrace.pool.executors.kernels.launch import COMPILING, view_of
from headrace.pool.executors.kernels.memory import array_fields, scalar_fields, struct_over
from headrace.pool.executors.kernels.program import MODES, KernelEnv, Outcome, Rules, build_kernel
from headrace.pool.executors.kernels.random import AgentStreams, Streams
from headrace.pool.spec import RESERVED, AutoresetMode, TaskSpec

AnyEnv = KernelEnv | MultiAgentEnv


@dataclass(frozen=True)
class Program:
    """A kernel with its types and launch parameters.

    Attributes:
        kernel: the kernel, which serves each row of requests with ``lanes`` threads.
        actions: the type of the actions: an array, or the environment's struct of arrays.
        outcome: the struct of the results that every environment has.
        lanes: number of threads for each row.
        block_dim: number of threads of a block in every launch.
        streams: the struct of the random streams, whose fields' row shapes and scalars are in
            ``stream_shapes`` and ``stream_scalars``.
    """

    kernel: Any
    actions: Any
    outcome: Any
    streams: Any
    lanes: int
    block_dim: int
    stream_shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    stream_scalars: Mapping[str, Any] = field(default_factory=dict)


def program_of(env: AnyEnv, spec: TaskSpec, device: str) -> Program:
    """Returns the program of an environment on a device, ``"cpu"`` or ``"cuda:i"``; it is not compiled yet."""
    actions = actions_type_of(env, spec)
    lanes = lanes_for(spec.num_agents, device)
    block_dim = block_for(lanes, device)
    with COMPILING:
        one_agent = not isinstance(env, MultiAgentEnv)
        kernel = build_kernel(env, actions) if one_agent else build_agents_kernel(env, actions, block_dim)
    if one_agent:
        return Program(kernel, actions, Outcome, Streams, lanes, block_dim)
    return Program(
        kernel,
        actions,
        AgentsOutcome,
        AgentStreams,
        lanes,
        block_dim,
        {"drawn": ("num_agents",)},
        {"num_agents": spec.num_agents},
    )


@functools.cache
def _array_type(dtype: Any, ndim: int) -> Any:
    """Returns one object for each type: Warp's do not compare equal, and kernels are kept by the types of arguments."""
    return wp.array(dtype=dtype, ndim=ndim)


def actions_type_of(env: AnyEnv, spec: TaskSpec) -> Any:
    """Returns the type of the kernel's argument ``actions``: an array, or the environment's struct of arrays.

    Raises:
        KernelError: the environment's struct does not fit the task's action space.
    """
    wanted = {
        name: _array_type(wp.dtype_from_numpy(dtype), 1 + len(shape))
        for name, (dtype, shape) in action_fields(spec.action).items()
    }
    struct = env.actions
    if not isinstance(spec.action, gym.spaces.Dict):
        if struct is not None:
            raise KernelError(f"{env.name}: all actions of {spec.task} are one array, so it needs no {struct.key}")
        return wanted[ACTION]
    if taken := RESERVED.intersection(wanted):
        raise KernelError(f"{spec.task}: no action can be called {min(taken)!r}, which names something else in a call")
    what = f"the arrays that {spec.task} needs ({', '.join(f'{n}: {described(kind)}' for n, kind in wanted.items())})"
    if struct is None:
        raise KernelError(f"{env.name}: its `actions` must be a warp.struct of {what}")
    given = array_fields(struct)
    fits = given.keys() == wanted.keys() and all(alike(given[name], wanted[name]) for name in wanted)
    if not fits or scalar_fields(struct):
        raise mistake_in(env, f"{struct.key} must have {what}, and no more", struct)
    return struct


def scalars_of(env: AnyEnv, spec: TaskSpec) -> dict[str, Any]:
    """Returns the values of scalars by name, for scalar fields of the environment's state and extents in shapes."""
    limits = {"max_episode_steps": spec.max_episode_steps, "num_agents": spec.num_agents}
    return {**limits, **env.constants, **spec.options}


def rules_of(spec: TaskSpec, autoreset: AutoresetMode, program: Program) -> Any:
    """Returns the `Rules` of a pool, as kernels take them."""
    rules = Rules()
    rules.autoreset, rules.max_episode_steps, rules.lanes = MODES[autoreset], spec.max_episode_steps, program.lanes
    return rules


def actions_over(program: Program, arrays: Mapping[str, Any]) -> Any:
    """Returns the kernel's argument ``actions`` over arrays or tensors [rows, …] by the names of `action_fields`."""
    if wp.types.is_array(program.actions):
        return view_of(arrays[ACTION], program.actions.dtype)
    return struct_over(program.actions, arrays)
