"""Minibatches from a replay of steps, where the graph of an update can read them.

The host draws numbers of transitions. Where updates are CUDA graphs, the device gathers and normalises the transitions
as a part of the graph; hindsight, which asks the environment for rewards, is an exception.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.storage.replay_wrapper import ReplayWrapper
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transitions import Transitions, to_device


class Minibatches:
    """Draws minibatches of one size.

    Args:
        replay: the source of transitions, on ``device``.
        normalised: returns normalised transitions, as `OffPolicy.normalised`.
        in_place: whether `read` always returns the same memory.

    Attributes:
        numbers: the numbers of the transitions drawn last, int64[size].
    """

    def __init__(
        self,
        replay: StepReplay | ReplayWrapper,
        size: int,
        normalised: Callable[[Transitions], Transitions],
        device: torch.device,
        in_place: bool,
    ):
        self._replay, self._size, self._normalised, self._device = replay, size, normalised, device
        rows = replay.replay if isinstance(replay, PrioritisedReplay) else replay
        self._rows = rows if in_place and isinstance(rows, StepReplay) else None
        self._in_place = in_place
        self.numbers = torch.zeros(size, dtype=torch.int64)
        self._there = torch.zeros(size, dtype=torch.int64, device=device)
        self._weights = torch.ones(size, device=device)
        self._batch: Transitions | None = None

    def draw(self, generator: torch.Generator) -> None:
        self.numbers = self._replay.draw((self._size,), generator)
        if self._rows is None:
            self._keep(self._normalised(self._replay.read(self.numbers)))
            return
        self._there.copy_(to_device(self.numbers, self._device))
        if isinstance(self._replay, PrioritisedReplay):
            self._weights.copy_(to_device(self._replay.weights(self.numbers), self._device))

    def read(self) -> Transitions:
        if self._rows is None:
            assert self._batch is not None
            return self._batch
        some = self._rows.gather(self._there)
        return self._normalised(
            some._replace(weights=self._weights) if isinstance(self._replay, PrioritisedReplay) else some
        )

    def _keep(self, batch: Transitions) -> None:
        if not self._in_place:
            self._batch = batch
        elif self._batch is None:
            self._batch = batch._replace(**{name: x.clone() for name, x in batch._asdict().items() if x is not None})
        else:
            for kept, new in zip(self._batch, batch, strict=True):
                if kept is not None and new is not None:
                    kept.copy_(new)
