"""Debug mode: a pool whose environments run as plain Python, one row after the other.

The very kernel that a pool would launch is interpreted (see `interpret`), so what happens is
what happens compiled, some thousand times slower. In return a wrong index, an integer divided by
zero, another environment's row, a reward or observation that is no number, and an observation
outside of its space are reported with the line of the author's code.
"""

from __future__ import annotations

import inspect
import linecache
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.errors import EnvironmentFailure, OptionError
from headrace.pool.batch import Batch, BatchRing, observation_fields
from headrace.pool.executors.kernels.build import AnyEnv
from headrace.pool.executors.kernels.checked import NUMPY, Array, Record
from headrace.pool.executors.kernels.checks import view_name
from headrace.pool.executors.kernels.executor import KernelExecutor
from headrace.pool.executors.kernels.interpret import as_python
from headrace.pool.executors.kernels.launch import Run
from headrace.pool.executors.kernels.memory import array_fields, scalar_fields
from headrace.pool.executors.kernels.mistakes import first_line
from headrace.pool.spec import PoolSettings, TaskSpec, bounds, subspaces

HERE = Path(__file__).parent
BY_ENV = ("state", "streams", "episodes")  # arguments whose rows are environments; those of others are results

FAILED = {"reward": 0.0, "terminated": False, "truncated": False, "elapsed_step": 0}  # what a failed step reports


class DebugExecutor(KernelExecutor):
    """A `KernelExecutor` that interprets its kernel instead of compiling and launching it."""

    def __init__(self, env: AnyEnv, spec: TaskSpec, settings: PoolSettings, ring: BatchRing):
        if settings.device != "cpu":
            raise OptionError(f"{spec.task}: debug mode runs on device 'cpu', not {settings.device!r}")
        self._checked = _Rows(env, spec)
        # asynchronous: results of a batch in which an environment failed, for the next recv
        self._kept: list[tuple[Batch, tuple[np.ndarray, ...]]] = []
        super().__init__(env, spec, replace(settings, num_threads=1), ring)

    def discard(self) -> None:
        while self._queue.size or self._kept:
            with suppress(EnvironmentFailure):  # nobody wants to know: these results are discarded
                self._serve_queued(min(self._queue.size, self._batch_size))

    def _serve_queued(self, rows: int) -> Batch:
        if self._kept:
            return self._kept.pop()[0]
        batch = self._ring.take(rows)
        self._queue.pop(rows, self._columns)
        try:
            self._run_picked(batch)
        except EnvironmentFailure:
            if self._is_async:
                self._kept.append((batch, batch.hold()))
            raise
        return batch

    def _load(self) -> None:
        pass

    def _launch(self, rows: int, arguments: list[Any]) -> Run:
        return self._checked.record(self._program.kernel, rows, arguments)


@dataclass
class _Turn:
    """Whose turn it is."""

    env: int = 0
    row: int = 0

    def own_env(self) -> tuple[str, int]:
        return "environment", self.env

    def own_row(self) -> tuple[str, int]:
        return "environment's row", self.row


class _Rows:
    """Serves the rows of a launch one by one, and looks at what comes out."""

    def __init__(self, env: AnyEnv, spec: TaskSpec):
        self._env, self._spec = env, spec
        names = [view_name(f.name) for f in observation_fields(spec.observation)]
        self._seen = dict(zip(names, subspaces(spec.observation).values(), strict=True))

    def record(self, kernel: Any, rows: int, arguments: list[Any]) -> Run:
        """A function that serves ``rows`` requests, as `launch.record` does; arguments in the kernel's order.

        It raises `EnvironmentFailure` for the first environment that fails, after all others have been served.
        """
        advance, turn = as_python(kernel), _Turn()
        *names, _ = inspect.signature(kernel.func).parameters
        *values, first = arguments
        given = {name: self._shown(name, value, turn) for name, value in zip(names, values, strict=True)}
        requests, outcome, views = given["requests"], given["outcome"], (given["view"], given["final"])

        def run() -> None:
            failures = []
            for row in range(first, first + rows):
                turn.row, turn.env = row, int(requests.env_id.values[row])
                try:
                    with np.errstate(all="ignore"):
                        advance(*given.values(), np.int32(row))
                    self._check_results(outcome, views, row)
                except Exception as error:
                    failures.append(self._failure(turn.env, error))
                    for field, value in FAILED.items():
                        getattr(outcome, field).values[row] = value
                    outcome.env_id.values[row] = turn.env
            if failures:
                raise failures[0]

        return run

    def _shown(self, name: str, value: Any, turn: _Turn) -> Any:
        """An argument of the kernel as its interpreted twin takes it."""
        owner = turn.own_env if name in BY_ENV else turn.own_row
        if isinstance(value, wp.array):
            return Array(name, value.numpy(), value.dtype, owner)
        struct: Any = value._cls
        fields: dict[str, Any] = {}
        for field, kind in array_fields(struct).items():
            array = getattr(value, field)
            memory = np.empty((0,) * kind.ndim) if array is None else array.numpy()
            shared = name == "state" and field in self._env.tables
            fields[field] = Array(f"{name}.{field}", memory, kind.dtype, None if shared else owner)
        for field in scalar_fields(struct):
            given, kind = getattr(value, field), struct.vars[field].type
            fields[field] = NUMPY[kind](getattr(given, "value", given)) if kind in NUMPY else given
        return Record(struct.key, fields)

    def _check_results(self, outcome: Any, views: tuple[Any, Any], row: int) -> None:
        if not np.isfinite(outcome.reward.values[row]).all():
            earn = getattr(self._env, "reward", self._env.step)
            raise _Wrong(earn, f"the reward is {outcome.reward.values[row]}")
        ended = outcome.terminated.values[row] or outcome.truncated.values[row]
        for view in views if ended else views[:1]:
            for name, space in self._seen.items():
                values = getattr(view, name).values
                if len(values):
                    self._check_seen(name, values[row], space)

    def _check_seen(self, name: str, value: np.ndarray, space: gym.Space) -> None:
        low, high = bounds(space)
        for wrong, text in ((~np.isfinite(value), ""), ((value < low) | (value > high), "outside of the space")):
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                index = "".join(f", {i}" for i in at)
                limits = f"{text}: [{np.broadcast_to(low, value.shape)[at]}, {np.broadcast_to(high, value.shape)[at]}]"
                what = f"view.{name}[row{index}] is {value[at]}" + (f", {limits}" if text else "")
                raise _Wrong(self._env.observe, what)

    def _failure(self, env_id: int, error: Exception) -> EnvironmentFailure:
        where, what = _whereabouts(error)
        message = f"{self._spec.task}, environment {env_id}: {what}\n{where}"
        failure = EnvironmentFailure(message)
        failure.__cause__ = error
        return failure


class _Wrong(ValueError):
    """A result that cannot be; ``function`` is the author's that gave it."""

    def __init__(self, function: Any, what: str):
        super().__init__(what)
        self.function = function


def _whereabouts(error: Exception) -> tuple[str, str]:
    """The author's line that an error came from, and what it says."""
    if isinstance(error, _Wrong):
        code = error.function.func.__code__
        return f"  {code.co_filename}:{first_line(error.function)}, in {code.co_name}", str(error)
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_authors(frame)]
    said = f"{type(error).__name__}: {error}"
    if not frames:
        return "  in Headrace's own code around the environment's", said
    frame, line = frames[-1]
    file = frame.f_code.co_filename
    source = linecache.getline(file, line).strip()
    return f"  {file}:{line}, in {frame.f_code.co_name}\n    {source}", said


def _is_authors(frame: FrameType) -> bool:
    file = Path(frame.f_code.co_filename)
    return file.parent != HERE and not {"warp", "numpy"} & set(file.parts)
