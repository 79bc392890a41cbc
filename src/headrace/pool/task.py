"""A task ready to be pooled: what it is, and what runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.pool.batch import BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.spec import PoolSettings, TaskSpec

if TYPE_CHECKING:
    from headrace.pool.executors.kernels.build import AnyEnv


@dataclass(frozen=True)
class Task:
    """A task's spec, and how to build the executors that can run it.

    Attributes:
        make_executor: builds what advances a `Pool`'s environments.
        kernel: the kernel environment that the executor runs, where it is one.
        make_on_device: builds what advances a `TorchPool`'s; None where the task cannot live on a device.
    """

    spec: TaskSpec
    make_executor: Callable[[TaskSpec, PoolSettings, BatchRing], HostExecutor]
    kernel: AnyEnv | None = None
    make_on_device: Callable[[TaskSpec, PoolSettings], Any] | None = None
