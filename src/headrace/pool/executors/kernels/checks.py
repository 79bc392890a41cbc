"""Mistakes in a kernel environment that would otherwise surface as a crash, named when its pool is made.

The compiled kernel trusts its arrays: a field that the batch does not have would be
written through a null pointer, one of another type over its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.pool.batch import INFO, OBS, observation_fields
from headrace.pool.executors.kernels.build import AnyEnv
from headrace.pool.executors.kernels.memory import array_fields, scalar_fields
from headrace.pool.spec import TaskSpec


def view_name(batch_name: str) -> str:
    """What a batch's array is called in an environment's view: ``obs``, ``obs_<key>``, or the info's name."""
    return batch_name.removeprefix(INFO).replace(f"{OBS}:", f"{OBS}_")


def check_environment(env: AnyEnv, spec: TaskSpec, scalars: Mapping[str, Any]) -> None:
    """Raise `TypeError` where the environment's structs and the task's spec do not fit together."""
    if not env.name.isidentifier():
        raise TypeError(f"the name of a kernel environment must be an identifier, not {env.name!r}")
    for name in scalar_fields(env.state):
        if name not in scalars:
            raise TypeError(f"{env.name}: {env.state.key}.{name} is neither an option of {spec.task} nor a constant")
    if extra := set(env.constants) - set(scalar_fields(env.state)):
        raise TypeError(f"{env.name}: {env.state.key} has no scalar field for the constant {min(extra)!r}")

    infos = [f for f in spec.info if not (spec.agents and f.name == "alive")]  # written by the executor
    fields = [*observation_fields(spec.observation), *infos]
    wanted = {view_name(f.name): (f.dtype, 1 + len(f.shape)) for f in fields}
    given = array_fields(env.view)
    for name in wanted.keys() | given.keys() | set(scalar_fields(env.view)):
        if name not in wanted:
            raise TypeError(f"{env.name}: {env.view.key}.{name} is neither observation nor info of {spec.task}")
        dtype, ndim = wanted[name]
        if name not in given:
            raise TypeError(f"{env.name}: {env.view.key} lacks the field {name!r}, {_described(dtype, ndim)}")
        kind = given[name]
        if not wp.types.type_is_scalar(kind.dtype) or (np.dtype(wp.dtype_to_numpy(kind.dtype)), kind.ndim) != (
            dtype,
            ndim,
        ):
            raise TypeError(f"{env.name}: {env.view.key}.{name} must be {_described(dtype, ndim)}, as {spec.task} says")


def _described(dtype: np.dtype, ndim: int) -> str:
    return f"an array of {dtype} with {ndim} dimension{'s' * (ndim > 1)} (the environment's row first)"
