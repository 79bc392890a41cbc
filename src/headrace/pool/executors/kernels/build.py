"""From an environment's functions to what an executor launches, for one agent or many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
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
from headrace.pool.executors.kernels.launch import quiet
from headrace.pool.executors.kernels.program import KernelEnv, Outcome, build_kernel
from headrace.pool.executors.kernels.random import AgentStreams, Streams
from headrace.pool.spec import TaskSpec

AnyEnv = KernelEnv | MultiAgentEnv


@dataclass(frozen=True)
class Program:
    """A kernel and what belongs to it.

    Attributes:
        kernel: serves one row of requests with each ``lanes`` threads.
        outcome: the struct of the results that every environment has.
        lanes: threads for each row.
        block_dim: threads of a block in every launch.
        streams: the struct of its random streams, whose fields' row shapes and scalars are in
            ``stream_shapes`` and ``stream_scalars``.
    """

    kernel: Any
    outcome: Any
    streams: Any
    lanes: int
    block_dim: int
    stream_shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    stream_scalars: Mapping[str, Any] = field(default_factory=dict)


def program_of(env: AnyEnv, spec: TaskSpec, device: str) -> Program:
    """The program of an environment on a device."""
    actions_type = actions_type_of(env, spec)
    lanes = lanes_for(spec.num_agents, device)
    block_dim = block_for(lanes, device)
    if not isinstance(env, MultiAgentEnv):
        return Program(build_kernel(env, actions_type), Outcome, Streams, lanes, block_dim)
    return Program(
        build_agents_kernel(env, actions_type, block_dim),
        AgentsOutcome,
        AgentStreams,
        lanes,
        block_dim,
        {"drawn": ("num_agents",)},
        {"num_agents": spec.num_agents},
    )


def actions_type_of(env: AnyEnv, spec: TaskSpec) -> Any:
    """The type of the kernel's argument ``actions``: an array, or the environment's own struct of them."""
    wanted = {
        name: wp.array(dtype=wp.dtype_from_numpy(dtype), ndim=1 + len(shape))
        for name, (dtype, shape) in action_fields(spec.action).items()
    }
    struct = env.actions if isinstance(env, MultiAgentEnv) else None
    if ACTION in wanted:
        if struct is not None:
            raise KernelError(f"{env.name}: all actions of {spec.task} are one array, so it needs no {struct.key}")
        return wanted[ACTION]
    what = ", ".join(f"{name}: {kind.ndim}d of {kind.dtype.__name__}" for name, kind in wanted.items())
    if struct is None:
        who = "its `actions`" if isinstance(env, MultiAgentEnv) else "the `actions` of a MultiAgentEnv"
        raise KernelError(f"{env.name}: {who} must be a warp.struct of the arrays that {spec.task} needs ({what})")
    given = {name: (var.type.ndim, var.type.dtype) for name, var in struct.vars.items() if wp.types.is_array(var.type)}
    if struct.vars.keys() != given.keys() or given != {name: (kind.ndim, kind.dtype) for name, kind in wanted.items()}:
        raise KernelError(f"{env.name}: {struct.key} must have the arrays that {spec.task} needs and no more ({what})")
    return struct


class ActionsIn:
    """Where actions are put for the kernel: one array, or a struct of one for each agent type.

    Attributes:
        argument: what the kernel takes.
        arrays: name → NumPy array [rows, …] over the same memory, by the names of `action_fields`.
    """

    def __init__(self, env: AnyEnv, spec: TaskSpec, rows: int, device: str):
        with quiet():
            made = {
                name: wp.zeros((rows, *shape), dtype=wp.dtype_from_numpy(dtype), device=device)
                for name, (dtype, shape) in action_fields(spec.action).items()
            }
        self.arrays: dict[str, np.ndarray] = {name: array.numpy() for name, array in made.items()}
        if ACTION in made:
            self.argument: Any = made[ACTION]
        else:
            self.argument = env.actions()  # type: ignore[union-attr]
            for name, array in made.items():
                setattr(self.argument, name, array)
