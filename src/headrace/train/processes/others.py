"""What a policy asks of the other processes that train it; the group of them answers."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Others(Protocol):
    """The processes that train a policy together; all call the same methods in the same order."""

    def average(self, values: Tensor, rows: float | Tensor) -> None:
        """Replaces a flat vector by its mean over all processes, weighted by the samples that each is the mean of."""

    def all_reduce(self, values: Tensor) -> None:
        """Replaces values by their sum over all processes, the same in each, bit for bit."""

    def all_gather(self, values: Tensor) -> Tensor:
        """Returns the vectors [n] of all processes, [processes, n]."""
        ...

    def broadcast(self, values: Tensor) -> None:
        """Replaces values by the first process's."""
