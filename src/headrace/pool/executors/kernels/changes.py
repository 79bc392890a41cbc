"""Changes of a task's options while its environments run.

Compiled functions get the tables of an environment's state by their addresses, and all else by value: so an option may
change within an episode if all that depends on it are values in tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.executors.kernels.launch import on_torch_stream, quiet
from headrace.pool.executors.kernels.memory import scalar_fields
from headrace.pool.spec import TaskSpec

Tables = Mapping[str, np.ndarray]


class Changes:
    """What other options make of the tables of a task.

    Args:
        make: a function that returns the task, a `headrace.pool.task.Task`, with some options.
        given: the options with which it was made.
        spec: its spec.
        env: its environment.
        scalars: the values of scalars of its state, by name.
        tables: a function that returns the environment's tables with some of all options.
        model: bytes of what it simulates, beside the environment.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        given: Mapping[str, Any],
        spec: TaskSpec,
        env: Any,
        scalars: Mapping[str, Any],
        tables: Callable[[Mapping[str, Any]], Tables],
        model: Callable[[], bytes] = bytes,
    ):
        self._make, self._given, self._spec, self._env, self._scalars = make, dict(given), spec, env, scalars
        self._tables, self._model = tables, model
        self._known = set[str]()  # options that change nothing else

    def tables(self, options: Mapping[str, Any]) -> Tables:
        """Returns the tables that differ, or may do, with these options in place of their values.

        Raises:
            OptionError: an option is unknown, its value is invalid, or it changes more than tables.
        """
        for name in sorted(options.keys() - self._known):
            self._check(name, options[name])
            if options[name] != self._spec.options[name]:
                self._known.add(name)
        return self._tables({**self._spec.options, **options}) if options else {}

    def _check(self, name: str, value: Any) -> None:
        other: Changes = self._make(self._spec.task, **{**self._given, name: value}).changes
        if what := self._difference(other):
            raise OptionError(
                f"{name} of {self._spec.task} cannot change while its environments run, as {what} depends on it: only "
                "tables of the state can, such as tables={'weight': np.array([…])} for an array `weight` of the state"
            )

    def _difference(self, other: Changes) -> str:
        """Returns in words what else than values of tables differs; empty for nothing."""
        if replace(self._spec, options={}) != replace(other._spec, options={}):
            return "what the task shows"
        for one in fields(self._env):
            if one.name != "tables" and not _same(getattr(self._env, one.name), getattr(other._env, one.name)):
                return f"the environment's {one.name}"
        for name in scalar_fields(self._env.state):
            if self._scalars[name] != other._scalars[name]:
                return f"the scalar {name!r} of its state"
        mine, theirs = ({n: np.shape(t) for n, t in env.tables.items()} for env in (self._env, other._env))
        if mine != theirs:
            return "a table's shape"
        return "" if self._model() == other._model() else "its model"


def put_tables(state: Any, tables: Tables, device: str = "cpu") -> None:
    """Writes the values of tables into the memory of a state, a `warp.struct`, on torch's current stream of a GPU."""
    with quiet(), on_torch_stream(device):
        for name, values in tables.items():
            getattr(state, name).assign(values)


def _same(one: Any, other: Any) -> bool:
    """Returns whether two parts of environments are equal, of which some hold arrays."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, partial) and isinstance(other, partial):
        return _same((one.func, one.args, one.keywords), (other.func, other.args, other.keywords))
    if is_dataclass(one) and type(one) is type(other):
        return all(_same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return bool(one == other)
