"""Draws of numbers in proportion to their priorities, which change between draws; both happen in batches.

A binary tree of sums needs twenty dependent steps for a million priorities, each of several tensor operations. Two
levels need two steps: sums of WIDTH priorities each, and the cumulative sums of these sums, which every draw computes
again. Sums are computed from their parts, never updated by differences, so that rounding errors do not accumulate.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 64
BELOW = 1 - 2**-50  # so that rounding does not select a number beyond the last one with a priority above 0


class SumTree:
    """The priorities of the numbers from 0 to ``size - 1``.

    Attributes:
        leaves: the priorities, float64[size], initially 0; `add_up` must be called after a change.
    """

    def __init__(self, size: int):
        self._groups = torch.zeros(-(-size // WIDTH), WIDTH, dtype=torch.float64)
        self._sums = torch.zeros(len(self._groups), dtype=torch.float64)
        self.leaves = self._groups.view(-1)[:size]

    @property
    def total(self) -> Tensor:
        """The sum of all priorities, a 0-d tensor."""
        return self._sums.sum()

    def add_up(self, places: Tensor) -> None:
        """Updates the sums after ``leaves`` changed at these places, int64[M]."""
        if len(places) > len(self._groups):
            torch.sum(self._groups, 1, out=self._sums)
        else:
            groups = places // WIDTH
            self._sums[groups] = self._groups.index_select(0, groups).sum(1)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Returns numbers, int64[count], drawn in proportion to their priorities; at least one priority is not 0."""
        sums = self._sums.cumsum(0)
        total = sums[-1]
        rest = torch.rand(count, dtype=torch.float64, generator=generator).mul_(total).clamp_max_(total * BELOW)
        groups = torch.searchsorted(sums, rest, right=True)
        rest -= sums.index_select(0, groups) - self._sums.index_select(0, groups)
        within = self._groups.index_select(0, groups).cumsum_(1)
        rest = torch.minimum(rest, within[:, -1] * BELOW).clamp_min_(0.0)
        return groups.mul_(WIDTH).add_(torch.searchsorted(within, rest.unsqueeze(1), right=True).squeeze(1))
