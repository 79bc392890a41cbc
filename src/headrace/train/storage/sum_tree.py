"""Drawing in proportion to priorities that change all the time, many draws and many changes at once.

A binary tree of sums needs twenty dependent steps for a million priorities, and each costs tensor operations. Two
levels need two: sums of WIDTH priorities each, and their running sum, which is made anew for every draw and
takes as long as a handful of small operations. Sums are computed from their parts and never by differences: nothing
drifts.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 64
BELOW = 1 - 2**-50  # rounding must not lead beyond the last that has any priority


class SumTree:
    """Priorities of things numbered from 0.

    Args:
        size: how many things.

    Attributes:
        leaves: their priorities, float64[size], at first 0; whoever changes them says so with `add_up`.
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
        """Take in what has changed in ``leaves`` at these places, int64[M]."""
        if len(places) > len(self._groups):
            torch.sum(self._groups, 1, out=self._sums)
        else:
            groups = places // WIDTH
            self._sums[groups] = self._groups.index_select(0, groups).sum(1)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Numbers of things, int64[count], each in proportion to its priority, of which one at least is not 0."""
        sums = self._sums.cumsum(0)
        total = sums[-1]
        rest = torch.rand(count, dtype=torch.float64, generator=generator).mul_(total).clamp_max_(total * BELOW)
        groups = torch.searchsorted(sums, rest, right=True)
        rest -= sums.index_select(0, groups) - self._sums.index_select(0, groups)
        within = self._groups.index_select(0, groups).cumsum_(1)
        rest = torch.minimum(rest, within[:, -1] * BELOW).clamp_min_(0.0)
        return groups.mul_(WIDTH).add_(torch.searchsorted(within, rest.unsqueeze(1), right=True).squeeze(1))
