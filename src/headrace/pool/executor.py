"""What a pool asks of whatever advances its environments.

An executor is the only thing that differs between C++ threads, Warp kernels and
worker processes. `Pool` has validated every argument before an executor sees it
(shapes, dtypes, ranges, env_ids in range and distinct and not in flight), so
executors check nothing twice and stay small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from headrace.pool.actions import Actions
from headrace.pool.batch import Batch


class Executor(Protocol):
    """Advances N environments and writes the results where the batch says.

    In every call ``env_ids`` is int32[k] in caller's order, or None for "all N, in order";
    ``actions`` is C-contiguous [k, *action.shape] of the action space's dtype, or a dict of them for a `Dict`;
    ``seeds`` is uint64[k], or None to continue each environment's stream.
    Rows of the batch come in the order of ``env_ids``.
    An environment that raises is reported as `EnvironmentFailure` after the others have finished.
    """

    def bind(self, batch: Batch) -> None:
        """Prepare to write into this batch, once; may keep a handle in ``batch.binding``."""
        ...

    def step(self, actions: Actions, env_ids: np.ndarray | None, batch: Batch) -> None:
        """Advance k environments by one agent step and fill the k rows of the batch."""
        ...

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: Batch) -> None:
        """Start new episodes and fill the k rows of the batch."""
        ...

    def send(self, actions: Actions, env_ids: np.ndarray) -> None:
        """Start k steps and return."""
        ...

    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        """Start k resets and return."""
        ...

    def recv(self, timeout: float | None) -> Batch:
        """Wait for the next ``batch_size`` finished rows, first come first served.

        In a synchronous pool each call returns the rows of one `send` or `send_reset`, oldest first, in
        the order sent. Raises `RecvTimeoutError` after ``timeout`` seconds, `KeyboardInterrupt` on Ctrl-C.
        """
        ...

    def discard(self) -> None:
        """Wait until nothing is in flight, and forget all results not yet received."""
        ...

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        """Everything that decides an environment's future, one blob each."""
        ...

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        """Restore what `save_state` returned; raises `StateError` for anything else."""
        ...

    def state_arrays(self) -> Mapping[str, np.ndarray]:
        """The arrays [N, …] in which the environments live, by name; empty where they live elsewhere."""
        ...

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        """RGB frames uint8[k, height, width, 3]."""
        ...

    def close(self) -> None:
        """Free threads, processes and memory now. Idempotent."""
        ...
