"""Prioritised experience replay over a step replay.

Source: Schaul et al. 2016 (arXiv:1511.05952), the proportional variant: transition i is drawn with probability
P(i) = pᵢ / Σp, where pᵢ = (|δᵢ| + ε)^α. Its weight in the loss is (N · P(i))^(-β), divided by the greatest weight of
the minibatch. Unlike in the paper, the draws of a minibatch are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transitions import Transitions, to_device

LEAST = 1e-6  # ε, so that transitions with an error of 0 are also drawn
WIDTH = 64  # priorities of a group
BELOW = 1 - 2**-50  # so that rounding does not select a number beyond the last one with a priority above 0


class PrioritisedReplay:
    """Draws from a `StepReplay` by priority.

    Transitions that were never drawn have the highest priority so far.

    Args:
        exponent: the exponent α of priorities; 0 draws uniformly.
        importance: the initial exponent β of importance weights.

    Attributes:
        importance: the exponent β of importance weights, which increases to 1 during a run.
        numbers: the numbers of the transitions that were sampled last, int64[B].
    """

    numbers = torch.zeros(0, dtype=torch.int64)

    def __init__(self, replay: StepReplay, exponent: float, importance: float = 1.0):
        self.replay, self.n_step = replay, replay.n_step
        self.exponent, self.importance = exponent, importance
        self._tree = SumTree(replay.layout.size)
        self._known = [(0, 0)] * replay.layout.segments  # rows that have priorities, [low, high) of each segment
        self._highest = torch.ones((), dtype=torch.float64)
        self._to_come: list[tuple[Tensor, Tensor, torch.cuda.Event | None]] = []

    def sample(self, size: int, generator: torch.Generator) -> Transitions:
        """Returns ``size`` transitions, drawn in proportion to their priorities, as `read` does."""
        self.numbers = self.draw((size,), generator)
        return self.read(self.numbers)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Returns numbers of transitions for `read`, int64 of this shape, in proportion to their priorities."""
        self._generator = generator
        self._follow()
        if not self._tree.total > 0:
            return self.replay.draw(shape, generator)  # raises an error if the replay is empty
        places = self._tree.draw(math.prod(shape), generator)
        return self._numbers(places).view(shape)

    def read(self, numbers: Tensor) -> Transitions:
        """Returns the transitions with these numbers, int64[B], and their weights; see `StepReplay.read`."""
        transitions = self.replay.read(numbers, self._again)
        return transitions._replace(weights=to_device(self.weights(numbers), transitions.rewards.device))

    def weights(self, numbers: Tensor) -> Tensor:
        """Returns the importance weights of transitions with these numbers, float32[B], on the host."""
        priorities = self._tree.leaves.index_select(0, numbers.remainder(self.replay.layout.size))
        # transitions that are about to be overwritten no longer have a priority
        priorities = priorities.where(priorities > 0, self._highest)
        return (priorities.min() / priorities).pow_(self.importance).float()

    def update(self, numbers: Tensor, errors: Tensor) -> None:
        """Sets the priorities of transitions that were read, int64[B], from their errors, float32[B].

        Errors on a GPU take effect with the next call, so that the host does not wait for them.
        """
        ready = None
        copied = torch.empty(errors.shape, dtype=errors.dtype, pin_memory=errors.is_cuda)
        copied.copy_(errors.detach(), non_blocking=True)
        if errors.is_cuda:
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(errors.device))
        self._to_come.append((numbers.clone(), copied, ready))
        if len(self._to_come) > (ready is not None):
            self._take(*self._to_come.pop(0))

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint: all priorities, float64, the highest one, and the rows that have one.

        This method waits for errors that a GPU still computes.
        """
        while self._to_come:
            self._take(*self._to_come.pop(0))
        return {"leaves": self._tree.leaves, "highest": self._highest, "known": torch.tensor(self._known)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores the tensors that `state` returned, over a replay with the same rows."""
        self._tree.leaves.copy_(state["leaves"])
        self._tree.add_up(torch.arange(len(self._tree.leaves)))
        self._highest = state["highest"].clone()
        self._known = [(low, high) for low, high in state["known"].tolist()]

    def _take(self, numbers: Tensor, errors: Tensor, ready: torch.cuda.Event | None) -> None:
        if ready is not None:
            ready.synchronize()
        priorities = errors.to(torch.float64).abs_().add_(LEAST).pow_(self.exponent)
        self._highest = torch.maximum(self._highest, priorities.max())
        layout = self.replay.layout
        places = numbers.remainder(layout.size)
        lows = torch.tensor([low for low, _ in self._known]) * layout.stride
        there = numbers >= lows.index_select(0, numbers.remainder(layout.stride).floor_divide_(layout.envs))
        self._tree.leaves[places] = priorities.where(there, self._tree.leaves.index_select(0, places))
        self._tree.add_up(places)

    def _again(self, count: int) -> Tensor:
        return self.draw((count,), self._generator)

    def _follow(self) -> None:
        """Sets the priorities of new transitions to the highest one, and of those that must no longer be drawn to 0."""
        gone, come, ranges = [], [], self.replay.ranges()
        if ranges == self._known:
            return
        for segment, now in enumerate(ranges):
            (low, high), self._known[segment] = self._known[segment], now
            gone.append(self._rows(segment, low, min(now[0], high)))
            come.append(self._rows(segment, max(now[0], high), now[1]))
        size, leaves, new = self.replay.layout.size, self._tree.leaves, torch.cat(come)
        old, places = torch.cat(gone).remainder_(size), new.remainder(size)
        leaves[old] = 0.0
        leaves[places] = self._highest * self.replay.leads_on(new)  # after the zeros, as places may coincide
        self._tree.add_up(torch.cat((old, places)))

    def _rows(self, segment: int, low: int, high: int) -> Tensor:
        """Returns the numbers of all environments' rows [low, high) of a segment."""
        layout = self.replay.layout
        first = segment * layout.envs
        rows = torch.arange(low, max(low, high)).unsqueeze(1) * layout.stride
        return (rows + torch.arange(first, first + layout.envs)).flatten()

    def _numbers(self, places: Tensor) -> Tensor:
        """Returns the numbers of the rows that are now at these places, int64[B]."""
        layout = self.replay.layout
        lows = torch.tensor([low for low, _ in self._known])
        oldest = lows.index_select(0, places.remainder(layout.stride).floor_divide_(layout.envs)) * layout.stride
        # only one row of the replay is in a place, and this is its number
        return oldest + (places - oldest).remainder(layout.size)


class SumTree:
    """The priorities of the numbers from 0 to ``size - 1``, drawn from in batches.

    A binary tree of sums needs twenty dependent steps for a million priorities. Two levels need two: sums of `WIDTH`
    priorities each, and the cumulative sums of these, which every draw computes again. Sums are computed from their
    parts, never updated by differences, so that rounding errors do not accumulate.

    Attributes:
        leaves: the priorities, float64[size], initially 0; `add_up` must be called after a change.
    """

    def __init__(self, size: int):
        self._groups = torch.zeros(-(-size // WIDTH), WIDTH, dtype=torch.float64)
        self._sums = torch.zeros(len(self._groups), dtype=torch.float64)
        self.leaves = self._groups.view(-1)[:size]

    @property
    def total(self) -> Tensor:
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
