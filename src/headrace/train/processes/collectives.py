"""The collective operations that a policy needs from the processes that train it together.

`headrace.train.runners.process_group.ProcessGroup` implements them; policies depend on the interface alone.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Collectives(Protocol):
    """Collective operations of a process group. All processes call the same methods in the same order."""

    def average(self, values: Tensor, rows: float | Tensor) -> None:
        """Replaces a vector by its weighted mean over all processes, in place.

        Args:
            values: float32[P], the mean over this process's samples.
            rows: the number of these samples, which is the process's weight.
        """

    def all_reduce(self, values: Tensor) -> None:
        """Replaces values, of any shape, by their sum over all processes, bitwise the same in all of them."""

    def all_gather(self, values: Tensor) -> Tensor:
        """Returns the vectors [n] of all processes, by rank, as [processes, n]."""
        ...

    def broadcast(self, values: Tensor) -> None:
        """Replaces values, of any shape, by those of rank 0."""
