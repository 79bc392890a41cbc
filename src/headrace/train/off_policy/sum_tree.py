"""Drawing in proportion to priorities that change all the time: sums of sums, many draws and changes at once.

A node has WIDTH children rather than two: a level costs a handful of tensor operations whatever its width, so few
levels are what makes it fast. Sums are computed from their parts and never by differences: nothing drifts.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 32


class SumTree:
    """Priorities of things numbered from 0.

    Args:
        size: how many things.

    Attributes:
        leaves: their priorities, float64[size], at first 0; whoever changes them says so with `add_up`.
    """

    def __init__(self, size: int):
        lengths = [size]
        while lengths[-1] > WIDTH:
            lengths.append(-(-lengths[-1] // WIDTH))
        # of each level, from the things up: nodes in groups of WIDTH, those that are not there with nothing
        self._levels = [torch.zeros(-(-length // WIDTH), WIDTH, dtype=torch.float64) for length in lengths]
        self.leaves = self._levels[0].view(-1)[:size]

    @property
    def total(self) -> Tensor:
        """The sum of all priorities, a 0-d tensor."""
        return self._levels[-1].sum()

    def add_up(self, places: Tensor) -> None:
        """Take in what has changed in ``leaves`` at these places, int64[M]."""
        if len(places) * WIDTH > len(self.leaves):  # so many that it is less to add all up
            for lower, upper in zip(self._levels, self._levels[1:], strict=False):
                upper.view(-1)[: len(lower)] = lower.sum(1)
            return
        for lower, upper in zip(self._levels, self._levels[1:], strict=False):
            places = places // WIDTH
            upper.view(-1)[places] = lower.index_select(0, places).sum(1)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Numbers of things, int64[count], each in proportion to its priority, of which one at least is not 0."""
        chance = torch.rand(count, dtype=torch.float64, generator=generator)
        places = torch.zeros(count, dtype=torch.int64)
        rest = chance * self.total
        for level in reversed(self._levels):
            sums = level.index_select(0, places).cumsum(1)
            # rounding must not lead beyond the last that has any priority
            rest = torch.minimum(rest, sums[:, -1] * (1 - 2**-50))
            child = (sums <= rest.unsqueeze(1)).sum(1)
            places = places * WIDTH + child
            before = sums.gather(1, (child - 1).clamp_min_(0).unsqueeze(1)).squeeze(1)
            rest = rest - before.where(child > 0, 0.0)
        return places
