"""The interface between a pool and the executor that advances its environments, on the host or on a device.

The executor is the only part that differs between C++ threads, worker processes, and Warp kernels on a CPU or a GPU.
The pool validates every argument before an executor sees it (shapes, dtypes, ranges; env_ids in range, distinct and
not in flight), so executors stay small. The contents of tensors on a device are the exception: reading them would
wait for the device, so the executor checks them there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from headrace.errors import ClosedError
from headrace.pool.actions import Actions
from headrace.pool.batch import Batch

B = TypeVar("B", contravariant=True)  # a batch, of arrays or of tensors
A = TypeVar("A", contravariant=True)  # actions, likewise


class Executor(Protocol[B, A]):
    """The part of a pool that advances N environments and writes their results into batches.

    In every call ``env_ids`` is int32[k] in the caller's order (in a step on a device a tensor), or None for all N in
    order; ``actions`` is a C-contiguous array [k, *action.shape] of the action space's dtype, or for a `Dict` space a
    dict of such arrays; ``seeds`` is uint64[k], or None to continue each environment's random stream.
    Rows of the batch come in the order of ``env_ids``.
    """

    pickles: ClassVar[bool] = False
    """whether saved states are pickles, which may run any code when they are loaded"""

    @abstractmethod
    def bind(self, batch: B) -> None:
        """Prepares a new batch for writing; may keep a handle in ``batch.binding``."""
        ...

    @abstractmethod
    def step(self, actions: A, env_ids: Any, batch: B) -> None:
        """Advances k environments by one agent step and fills the k rows of the batch."""
        ...

    @abstractmethod
    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: B) -> None:
        """Starts new episodes and fills the k rows of the batch."""
        ...

    @abstractmethod
    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        """Returns the complete state of each environment, one `bytes` each."""
        ...

    @abstractmethod
    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        """Restores states that `save_state` returned; raises `StateError` for others, before any state changes."""
        ...

    @abstractmethod
    def state_arrays(self) -> Mapping[str, Any]:
        """Returns the arrays or tensors [N, …] that hold the environments' state, by name; empty if there are none."""
        ...

    def put_tables(self, tables: Mapping[str, np.ndarray]) -> None:
        """Writes values of tables that all environments share; for a task with `headrace.pool.task.Task.changes`."""

    @abstractmethod
    def render(self, env_ids: np.ndarray) -> np.ndarray:
        """Returns RGB frames uint8[k, height, width, 3]."""
        ...

    def wake(self) -> None:
        """Makes waiting calls of other threads raise `ClosedError`; `close` is called once all calls have ended."""

    @abstractmethod
    def close(self) -> None:
        """Frees threads, processes and memory immediately. Further calls have no effect."""
        ...

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises `ClosedError` for what `close` has dropped.

            The garbage collector frees a pool before it calls ``__del__`` of the objects that refer to it.
            """
            if vars(self):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise ClosedError("this pool was closed, as the garbage collector freed it")


class HostExecutor(Executor[Batch, Actions], Protocol):
    """The executor of a `Pool`: its results are NumPy arrays, which an asynchronous pool receives as they finish.

    An environment that raises is reported as `EnvironmentFailure` after the others have finished.

    A signal handler may raise within any call. Memory that threads write to then stays until they are done, and
    `discard`, which the pool calls next, must work from any intermediate state. Environments whose call was
    interrupted are reset before any other use.

    Attributes:
        waiting: whether a `recv` would wait for results, or is waiting; an exception that ends it then has no effect
            on results.
        background: whether sent work proceeds without a `recv`.
        finishes_steps: whether a `step` that an exception interrupts has advanced either all of its environments or
            none.
        takes_options: whether resets take a further argument, the options for the environments' own ``reset``.
        seeds_all: whether seeds can be given to all environments at once only.
    """

    waiting: bool
    background: bool
    finishes_steps: bool
    takes_options: bool = False
    seeds_all: bool = False

    def allocate(self, rows: int) -> dict[str, np.ndarray] | None:
        """Returns arrays for a batch of ``rows`` rows in the executor's own memory; None if it can use any memory."""
        return None

    def check_some(self, env_ids: np.ndarray) -> None:
        """Raises an error if these environments, int32[k], cannot be stepped without the others."""

    @abstractmethod
    def send(self, actions: Actions, env_ids: np.ndarray) -> None:
        """Starts k steps, as `Executor.step`, and returns immediately."""
        ...

    @abstractmethod
    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        """Starts k resets, as `Executor.reset`, and returns immediately."""
        ...

    @abstractmethod
    def recv(self, timeout: float | None) -> Batch:
        """Waits for the next ``batch_size`` finished rows, in the order in which they finish.

        In a synchronous pool each call returns the rows of one `send` or `send_reset`, oldest first, in
        the order sent. Raises `RecvTimeoutError` after ``timeout`` seconds, `KeyboardInterrupt` on Ctrl-C.
        """
        ...

    @abstractmethod
    def discard(self) -> np.ndarray | None:
        """Waits until no environment is in flight, and drops all results not yet received.

        Returns:
            Further environments, int32[k], whose episodes that has ended; None for none.
        """
        ...
