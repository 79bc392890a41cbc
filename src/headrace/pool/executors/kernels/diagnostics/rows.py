"""Serves a launch in debug mode, one row after the other, and checks the results."""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.errors import EnvironmentFailure
from headrace.pool.batch import observation_fields
from headrace.pool.executors.kernels.build import AnyEnv
from headrace.pool.executors.kernels.diagnostics.checked import NUMPY, Array, Note, NotSetError, Record
from headrace.pool.executors.kernels.diagnostics.checks import view_name
from headrace.pool.executors.kernels.diagnostics.interpret import as_python
from headrace.pool.executors.kernels.diagnostics.mistakes import first_line
from headrace.pool.executors.kernels.diagnostics.patience import EndlessLoopError
from headrace.pool.executors.kernels.diagnostics.printing import FormatError
from headrace.pool.executors.kernels.diagnostics.races import RaceError, Watch, is_authors, watched
from headrace.pool.executors.kernels.launch import Run
from headrace.pool.executors.kernels.memory import array_fields, scalar_fields
from headrace.pool.spec import TaskSpec, bounds, subspaces

VIEWS = ("view", "final")
BY_ENV = ("state", "streams", "episodes")  # arguments whose rows are environments; rows of others are results

FAILED = {"reward": 0.0, "terminated": False, "truncated": False, "elapsed_step": 0}  # results of a failed step


@dataclass
class _Turn:
    """The environment and the row that are being served."""

    env: int = 0
    row: int = 0

    def own_env(self) -> tuple[str, int]:
        return "environment", self.env

    def own_row(self) -> tuple[str, int]:
        return "environment's row", self.row


class Rows:
    """The debug mode of one environment's launches: serves rows one by one, and checks the results.

    Attributes:
        known: for each array of the state, the mask of elements that have been set.
    """

    def __init__(self, env: AnyEnv, spec: TaskSpec):
        self._env, self._spec = env, spec
        self._watch = Watch(spec.num_agents) if spec.agents and spec.num_agents > 1 else None
        names = [view_name(f.name) for f in observation_fields(spec.observation)]
        self._seen = dict(zip(names, subspaces(spec.observation).values(), strict=True))
        self.known: Mapping[str, np.ndarray] = {}

    def record(self, kernel: Any, threads: int, arguments: Sequence[Any], device: str, block_dim: int) -> Run:
        """Returns a function that serves the requests of so many threads, like `launch.record`.

        ``arguments`` are those of the kernel, in its order.

        It raises `EnvironmentFailure` for the first environment that fails, after all others have been served.
        """
        advance, turn = as_python(kernel), _Turn()
        *names, _, _ = inspect.signature(kernel.func).parameters
        *values, first, share = arguments
        given = {name: self._shown(name, value, turn) for name, value in zip(names, values, strict=True)}
        requests, outcome, views = given["requests"], given["outcome"], (given["view"], given["final"])

        def run() -> None:
            failures = []
            for row in range(first, first + threads * share):
                turn.row, turn.env = row, int(requests.env_id.values[row])
                for view in views:
                    _forget(view, row)
                try:
                    with np.errstate(all="ignore"), watched(self._watch):
                        advance(*given.values(), np.int32(row), np.int32(1))
                    self._check_results(outcome, views, row)
                except Exception as error:
                    failures.append(failure_of(self._spec.task, turn.env, error))
                    for field, value in FAILED.items():
                        getattr(outcome, field).values[row] = value
                    outcome.env_id.values[row] = turn.env
            if failures:
                raise failures[0]

        return run

    def _shown(self, name: str, value: Any, turn: _Turn) -> Any:
        """Returns an argument of the kernel in the form that the interpreted kernel takes."""
        owner = turn.own_env if name in BY_ENV else turn.own_row
        if isinstance(value, wp.array):
            return Array(name, value.numpy(), value.dtype, owner, note=self._note(name, value.ndim))
        struct: Any = value._cls
        fields: dict[str, Any] = {}
        for field, kind in array_fields(struct).items():
            array = getattr(value, field)
            memory = np.empty((0,) * kind.ndim) if array is None else array.numpy()
            shared = name == "state" and field in self._env.tables
            known = self.known.get(field) if name == "state" else None
            if name in VIEWS:
                known = np.zeros(memory.shape, np.bool_)
            full, whose = f"{name}.{field}", None if shared else owner
            fields[field] = Array(full, memory, kind.dtype, whose, known, self._note(full, kind.ndim))
        for field in scalar_fields(struct):
            given, kind = getattr(value, field), struct.vars[field].type
            fields[field] = NUMPY[kind](getattr(given, "value", given)) if kind in NUMPY else given
        return Record(struct.key, fields)

    def _note(self, name: str, ndim: int) -> Note | None:
        return None if self._watch is None else self._watch.noting(name, ndim)

    def _check_results(self, outcome: Any, views: tuple[Any, Any], row: int) -> None:
        if not np.isfinite(outcome.reward.values[row]).all():
            earn = getattr(self._env, "reward", self._env.step)
            raise InvalidResultError(earn, f"the reward is {outcome.reward.values[row]}")
        ended = outcome.terminated.values[row] or outcome.truncated.values[row]
        for view in views if ended else views[:1]:
            for array in arrays_of(view):
                if len(array):
                    check_set(self._env.observe, array, row)
            for name, space in self._seen.items():
                values = getattr(view, name).values
                if len(values):
                    check_seen(self._env.observe, name, values[row], space)


def failure_of(task: str, env_id: int, error: Exception) -> EnvironmentFailure:
    """Returns the failure of an environment, with the author's line."""
    where, what = _whereabouts(error)
    failure = EnvironmentFailure(f"{task}, environment {env_id}: {what}\n{where}")
    failure.__cause__ = error
    return failure


def arrays_of(record: Record) -> list[Array]:
    """Returns the arrays among a record's fields."""
    return [value for value in vars(record).values() if isinstance(value, Array)]


def check_seen(function: Any, name: str, value: np.ndarray, space: gym.Space, row: str = "row") -> None:
    """Checks one environment's array of an observation, which ``function`` wrote to ``view.<name>[row]``.

    Raises:
        WrongError: it is NaN or infinite.
        OutsideError: it lies outside of its space.
    """
    low, high = bounds(space)
    if np.size(low) == value.size:  # Warp's arrays may have fewer dimensions than the space
        low, high = np.reshape(low, value.shape), np.reshape(high, value.shape)
    for wrong, text in ((~np.isfinite(value), ""), ((value < low) | (value > high), "outside of the space")):
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            index = "".join(f", {i}" for i in at)
            limits = f"{text}: [{np.broadcast_to(low, value.shape)[at]}, {np.broadcast_to(high, value.shape)[at]}]"
            what = f"view.{name}[{row}{index}] is {value[at]}" + (f", {limits}" if text else "")
            raise (OutOfBoundsError if text else InvalidResultError)(function, what)


def check_set(function: Any, array: Array, at: int, row: str = "row") -> None:
    """Raises `InvalidResultError` for the first element of row ``at`` that the author's function has not set."""
    assert array.known is not None
    missing = np.argwhere(~array.known[at])
    if len(missing):
        index, size = "".join(f", {i}" for i in missing[0]), array.known[at].size
        must = f"must set all {size} numbers of {array.name}[{row}]" if size > 1 else "must set it"
        raise InvalidResultError(function, f"{array.name}[{row}{index}] is not set: {function.key} {must}")


def _forget(view: Record, row: int) -> None:
    for array in arrays_of(view):
        if len(array) and array.known is not None:
            array.known[row] = False


class InvalidResultError(ValueError):
    """An invalid result; ``function`` is the author's function that returned or wrote it."""

    def __init__(self, function: Any, what: str):
        super().__init__(what)
        self.function = function


class OutOfBoundsError(InvalidResultError):
    """An observation outside of its space."""


SILENT = (RaceError, IndexError, ZeroDivisionError, EndlessLoopError, FormatError, NotSetError, InvalidResultError)
"""Mistakes that compiled code does not report or that crash it; other errors may stem from debug mode itself."""


def _whereabouts(error: Exception) -> tuple[str, str]:
    """Returns the author's line that raised an error, and the error's message."""
    if isinstance(error, InvalidResultError):
        code = error.function.func.__code__
        return f"  {code.co_filename}:{first_line(error.function)}, in {code.co_name}", str(error)
    if isinstance(error, RaceError):
        return error.where, str(error)
    tracked = traceback.walk_tb(error.__traceback__)
    frames = [(frame, line) for frame, line in tracked if is_authors(frame.f_code.co_filename)]
    said = f"{type(error).__name__}: {error}"
    if not frames:
        return "  in Headrace's own code around the environment's", said
    frame, line = frames[-1]
    file = frame.f_code.co_filename
    source = linecache.getline(file, line).strip()
    return f"  {file}:{line}, in {frame.f_code.co_name}\n    {source}", said
