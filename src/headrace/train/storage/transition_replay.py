"""A replay of transitions, in a ring on one device.

It uses index arithmetic only, so that neither filling it nor drawing from it waits for the device, and both can be part
of a CUDA graph. A transition is one row: a rollout is written by one scatter, and a minibatch is read by one gather.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from headrace.train.modules.graphs import Graph
from headrace.train.storage.transitions import Transitions

ONE_THREAD = (
    32768  # numbers up to which torch gathers on one thread; others would wait for more work on the learner's cores
)


class TransitionReplay:
    """A replay of the last ``capacity`` transitions.

    Args:
        capacity: number of transitions that it holds; at least as many as one `add` takes.
        inputs, actions: columns of one observation, D, and of one action, A.
        masks: columns of one action mask, K; 0 without masks.
        dtype: dtype of its memory: float64 for observations that float32 would round.
        gamma: what ``discounts`` are multiplied by when they are read.
        graphs: whether `sample` is a CUDA graph on a device that has them.

    Attributes:
        n_step: the number of steps of a transition, 1.
        memory: the transitions, [capacity + 1, 2·D + A + 2 + K]; the last row receives those that are not kept.
        written: total number of transitions written, a 0-d int64 tensor.
    """

    n_step = 1

    def __init__(
        self,
        capacity: int,
        inputs: int,
        actions: int,
        device: torch.device | str = "cpu",
        masks: int = 0,
        dtype: torch.dtype = torch.float32,
        gamma: float = 1.0,
        graphs: bool = False,
    ):
        self.capacity, self.gamma, self._enabled = capacity, gamma, graphs
        self._widths = (inputs, actions, 1, 1, inputs, masks)
        self.memory = torch.zeros(capacity + 1, sum(self._widths), dtype=dtype, device=device)
        self.written = torch.zeros((), dtype=torch.int64, device=device)
        self._piece = max(1, ONE_THREAD // sum(self._widths)) if self.memory.device.type == "cpu" else capacity
        self._graphs: dict[tuple[int, torch.Generator], Graph] = {}

    @torch.inference_mode()
    def add(self, new: Transitions, present: Tensor | None = None) -> None:
        """Adds transitions, which replace the oldest if the replay is full.

        Args:
            present: which of them to add, bool[M]; all by default.
        """
        rewards, discounts = new.rewards.unsqueeze(1), new.discounts.unsqueeze(1)
        masks = () if new.masks is None else (new.masks,)
        rows = torch.cat((new.inputs, new.actions, rewards, discounts, new.next_observations, *masks), 1)
        if present is None:
            places = (torch.arange(len(rows), device=rows.device) + self.written) % self.capacity
            self.written += len(rows)
        else:
            number = present.cumsum(0)
            places = torch.where(present, (self.written + number - 1) % self.capacity, self.capacity)
            self.written += number[-1]
        self.memory[places] = rows

    def sample(self, size: int, generator: torch.Generator) -> Transitions:
        """Returns ``size`` transitions, drawn uniformly from those held, in memory that the next call may overwrite."""
        key = size, generator
        if key not in self._graphs:
            drawn = (generator,) if generator.device.type == "cuda" else ()
            graph = Graph(lambda: self.read(self.draw((size,), generator)), self.memory.device, self._enabled, drawn)
            self._graphs[key] = graph
        return self._graphs[key]()

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Returns numbers of transitions for `read`, int64 of this shape, uniform over those held."""
        held = self.written.clamp(1, self.capacity)
        chance = torch.randint(2**62, shape, device=generator.device, generator=generator)
        return chance.to(held.device) % held

    def read(self, rows: Tensor) -> Transitions:
        """Returns the transitions with these numbers, int64[B]."""
        found = self.memory.new_empty(len(rows), self.memory.shape[1])
        for some, into in zip(rows.split(self._piece), found.split(self._piece), strict=True):
            torch.index_select(self.memory, 0, some, out=into)
        inputs, actions, rewards, discounts, next_observations, masks = found.split(self._widths, 1)
        numbers = actions.float(), rewards.squeeze(1).float(), discounts.squeeze(1).float() * self.gamma
        return Transitions(inputs, *numbers, next_observations, masks=masks if self._widths[-1] else None)

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint: the filled rows only, and the number written."""
        return {"memory": self.memory[: min(int(self.written), self.capacity)], "written": self.written}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.memory[: len(state["memory"])] = state["memory"]
        self.written.copy_(state["written"])
