"""A task: its spec and the functions that build its executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.pool.batch import BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.goals import Goals
from headrace.pool.spec import PoolSettings, TaskSpec

if TYPE_CHECKING:
    from headrace.pool.executors.kernels.build import AnyEnv
    from headrace.pool.executors.kernels.changes import Changes


@dataclass(frozen=True)
class Task:
    """A task's spec, and the functions that build the executors that can run it.

    Attributes:
        spec: the task's spaces, info fields and options.
        make_executor: a function that builds the executor of a `Pool`.
        kernel: the kernel environment that the executor runs; None for any other kind of task.
        make_on_device: a function that builds the executor of a `TorchPool`; None if the task cannot run on a device.
        goals: the positions and rewards of goals in its observations; None for a task without goals.
        stack: the option for the number of images in an observation, oldest first: each step adds one, and the first of
            a game, where ``elapsed_step`` is 0, is repeated. None for a task that does not stack images so.
        remark: a function that returns what ``headrace envs`` says of how the task runs; None or an empty text
            for nothing.
        changes: what options may change while environments run; None if none may.
    """

    spec: TaskSpec
    make_executor: Callable[[TaskSpec, PoolSettings, BatchRing], HostExecutor]
    kernel: AnyEnv | None = None
    make_on_device: Callable[[TaskSpec, PoolSettings], Any] | None = None
    goals: Goals | None = None
    stack: str | None = None
    remark: Callable[[], str] | None = None
    changes: Changes | None = None
