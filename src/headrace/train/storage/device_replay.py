"""The replay ring: transitions that off-policy learning draws from again and again.

It lives beside the learner and is written by index arithmetic alone, so that neither filling it nor drawing
from it waits for the device, and both can be part of a CUDA graph. All of a transition lies in one row: a
rollout is written by one scatter, a minibatch read by one gather.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Transitions(NamedTuple):
    """Steps of agents, one a row.

    Attributes:
        inputs: what was seen before the step, float32[M, D].
        actions: in units of half the action range, float32[M, A].
        rewards: of the step, or of several steps, discounted; float32[M].
        discounts: what the value of ``following`` counts: γ for every step, 0 where nothing followed; float32[M].
        following: what was seen after the step, float32[M, D]; where an episode was truncated, the last of it.
        weights: of each in the loss, float32[M]; None for all alike.
    """

    inputs: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    following: Tensor
    weights: Tensor | None = None


class Recorded(NamedTuple):
    """A rollout as a replay takes it in.

    Attributes:
        transitions: M of them.
        present: whose agents were in the game, bool[M]; None where all were.
    """

    transitions: Transitions
    present: Tensor | None


class Replay:
    """The last ``capacity`` transitions.

    Args:
        capacity: transitions that it holds; no fewer than are written at once.
        inputs, actions: columns of one observation, D, and of one action, A.
        device: where it lives.

    Attributes:
        memory: float32[capacity + 1, 2·D + A + 2]; what is not to be kept goes to the last row.
        written: int64, transitions written since the beginning, a 0-d tensor.
    """

    def __init__(self, capacity: int, inputs: int, actions: int, device: torch.device | str = "cpu"):
        self.capacity = capacity
        self._widths = (inputs, actions, 1, 1, inputs)
        self.memory = torch.zeros(capacity + 1, sum(self._widths), device=device)
        self.written = torch.zeros((), dtype=torch.int64, device=device)

    def write(self, new: Transitions, present: Tensor | None = None) -> None:
        """Take in transitions, over the oldest where it is full; only those ``present``, bool[M], if given."""
        rewards, discounts = new.rewards.unsqueeze(1), new.discounts.unsqueeze(1)
        rows = torch.cat((new.inputs, new.actions, rewards, discounts, new.following), 1)
        if present is None:
            places = (torch.arange(len(rows), device=rows.device) + self.written) % self.capacity
            self.written += len(rows)
        else:
            number = present.cumsum(0)
            places = torch.where(present, (self.written + number - 1) % self.capacity, self.capacity)
            self.written += number[-1]
        self.memory[places] = rows

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Numbers of transitions for `read`, int64 of this shape, each of those held equally likely."""
        held = self.written.clamp(1, self.capacity)
        chance = torch.randint(2**62, shape, device=generator.device, generator=generator)
        return chance.to(held.device) % held

    def read(self, rows: Tensor) -> Transitions:
        """Some transitions, by number, int64[B]."""
        inputs, actions, rewards, discounts, following = self.memory[rows].split(self._widths, 1)
        return Transitions(inputs, actions, rewards.squeeze(1), discounts.squeeze(1), following)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: no more rows than are filled."""
        return {"memory": self.memory[: min(int(self.written), self.capacity)], "written": self.written}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.memory[: len(state["memory"])] = state["memory"]
        self.written.copy_(state["written"])
