"""Compares the fields that a compiled simulator declares with its task's spec when a pool is made.

A simulator's code writes into a batch's arrays by address: a field that the task lacks, or a field of another type or
size, would overwrite unrelated memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from math import prod
from typing import Any

import numpy as np

from headrace.errors import SimulatorError
from headrace.pool.actions import ACTION
from headrace.pool.batch import INFO, observation_fields
from headrace.pool.infos import OURS
from headrace.pool.spec import ARRAYS, Field, TaskSpec


def check_simulator(simulator: Any, spec: TaskSpec) -> None:
    """Raises `SimulatorError` if a simulator and the task's spec differ; the message names the field and both sides."""
    infos = [Field(INFO + f.name, f.dtype, f.shape) for f in spec.info]
    if taken := OURS.intersection(f.name for f in spec.info):
        raise SimulatorError(
            f"{spec.task}: an info field cannot be called {min(taken)!r}, as every batch has one of this name"
        )
    if spec.agents:
        raise SimulatorError(f"{spec.task} has {spec.num_agents} agents; a compiled simulator has one, and one reward")
    _check_fields(spec.task, [_field(f) for f in simulator.fields], [*observation_fields(spec.observation), *infos])
    _check_action(simulator.action, spec)


def _field(declared: Any) -> Field:
    return Field(declared.name, np.dtype(declared.dtype), tuple(declared.shape))


def _check_fields(task: str, given: Sequence[Field], wanted: Sequence[Field]) -> None:
    names, known = [f.name for f in given], [f.name for f in wanted]
    for i, field in enumerate(given):
        if field.name in names[:i]:
            raise SimulatorError(f"{task}: the simulator declares {field.name!r} twice")
    extra = [name for name in names if name not in known]
    for field in wanted:
        if field.name not in names:
            nearest = get_close_matches(field.name, extra, 1)
            rather = f"; it has {nearest[0]!r}, which the task has not" if nearest else ""
            raise SimulatorError(
                f"{task}: the simulator does not declare the task's {field.name!r}, {_described(field)}{rather}"
            )
    by_name = {f.name: f for f in wanted}
    for field in given:
        if field.name not in by_name:
            raise SimulatorError(
                f"{task}: the simulator declares {field.name!r}, {_described(field)}; the task has {', '.join(known)}"
            )
        _check_alike(task, field, by_name[field.name])
    if names != known:
        raise SimulatorError(
            f"{task}: the simulator declares its fields in another order, {', '.join(names)}; "
            f"the task's is {', '.join(known)}"
        )


def _check_action(declared: Any, spec: TaskSpec) -> None:
    space = spec.action
    if not isinstance(space, ARRAYS):
        raise SimulatorError(f"{spec.task}: a compiled simulator takes one array of actions, not {space}")
    wanted = Field(ACTION, np.dtype(space.dtype), tuple(space.shape or ()))
    if declared is None:
        raise SimulatorError(f"{spec.task}: the simulator declares no action; the task's is {_described(wanted)}")
    _check_alike(spec.task, _field(declared), wanted)


def _check_alike(task: str, given: Field, wanted: Field) -> None:
    if (given.dtype, given.shape) != (wanted.dtype, wanted.shape):
        raise SimulatorError(
            f"{task}: {given.name!r} is {_described(given)} in the simulator, but {_described(wanted)} in the task"
        )


def _described(field: Field) -> str:
    size = prod(field.shape) * field.dtype.itemsize
    return f"{field.dtype} {list(field.shape)} ({size} byte{'s' * (size != 1)} a row)"
