"""What a pool asks of whatever advances its environments, on the host and on a device.

An executor is the only thing that differs between C++ threads, worker processes, and Warp kernels
on a CPU or a GPU. The pool has validated every argument before an executor sees it (shapes, dtypes,
ranges, env_ids in range and distinct and not in flight), so executors check nothing twice and stay
small. What lies on a device a pool cannot look at: there the executor checks tensors as it takes them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from headrace.pool.actions import Actions
from headrace.pool.batch import Batch

B = TypeVar("B", contravariant=True)  # a batch, of arrays or of tensors
A = TypeVar("A", contravariant=True)  # actions, likewise


class Executor(Protocol[B, A]):
    """Advances N environments and writes the results where the batch says.

    In every call ``env_ids`` is int32[k] in caller's order (in a step on a device a tensor), or None for "all N, in
    order"; ``actions`` is C-contiguous [k, *action.shape] of the action space's dtype, or a dict of them for a `Dict`;
    ``seeds`` is uint64[k], or None to continue each environment's stream.
    Rows of the batch come in the order of ``env_ids``.
    """

    @abstractmethod
    def bind(self, batch: B) -> None:
        """Prepare to write into this batch, once; may keep a handle in ``batch.binding``."""
        ...

    @abstractmethod
    def step(self, actions: A, env_ids: Any, batch: B) -> None:
        """Advance k environments by one agent step and fill the k rows of the batch."""
        ...

    @abstractmethod
    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: B) -> None:
        """Start new episodes and fill the k rows of the batch."""
        ...

    @abstractmethod
    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        """Everything that decides an environment's future, one blob each."""
        ...

    @abstractmethod
    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        """Restore what `save_state` returned; raises `StateError` for anything else, before anything is written."""
        ...

    @abstractmethod
    def state_arrays(self) -> Mapping[str, Any]:
        """The arrays or tensors [N, …] in which the environments live, by name; empty where they live elsewhere."""
        ...

    @abstractmethod
    def render(self, env_ids: np.ndarray) -> np.ndarray:
        """RGB frames uint8[k, height, width, 3]."""
        ...

    def wake(self) -> None:
        """End other threads' waiting in calls with `ClosedError`; `close` follows when nobody is inside any more."""

    @abstractmethod
    def close(self) -> None:
        """Free threads, processes and memory now. Idempotent."""
        ...


class HostExecutor(Executor[Batch, Actions], Protocol):
    """An executor of a `Pool`, whose results are NumPy arrays and may come when they are done.

    An environment that raises is reported as `EnvironmentFailure` after the others have finished.

    A signal's handler may raise in the midst of any call. Memory that threads write to then stays until they are
    done, and `discard`, which the pool calls next, copes with whatever was left half done. Environments whose call was
    interrupted are reset before anything else is done with them.

    Attributes:
        waiting: a `recv` is waiting for results: an exception that ends it now has changed nothing.
        background: what was sent is done by itself, and not in the `recv` that asks for it.
        finishes_steps: a `step` that such an exception ends was taken by all its environments, or by none.
        takes_options: resets take a further argument, the options for each environment's own, as where environments
            are Python objects.
    """

    waiting: bool
    background: bool
    finishes_steps: bool
    takes_options: bool = False

    def allocate(self, rows: int) -> dict[str, np.ndarray] | None:
        """Arrays for a batch of so many rows where the executor can write; None where any memory will do."""
        return None

    @abstractmethod
    def send(self, actions: Actions, env_ids: np.ndarray) -> None:
        """Start k steps and return."""
        ...

    @abstractmethod
    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        """Start k resets and return."""
        ...

    @abstractmethod
    def recv(self, timeout: float | None) -> Batch:
        """Wait for the next ``batch_size`` finished rows, first come first served.

        In a synchronous pool each call returns the rows of one `send` or `send_reset`, oldest first, in
        the order sent. Raises `RecvTimeoutError` after ``timeout`` seconds, `KeyboardInterrupt` on Ctrl-C.
        """
        ...

    @abstractmethod
    def discard(self) -> None:
        """Wait until nothing is in flight, and forget all results not yet received."""
        ...
