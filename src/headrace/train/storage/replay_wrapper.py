"""The base of objects that stand in a replay's place in the process that reads, and change what is drawn or read."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.storage.step_replay import Staleness, StepReplay
from headrace.train.storage.transitions import Transitions


class ReplayWrapper:
    """Passes everything on to a replay; each method does what the `StepReplay` method of the same name does.

    Args:
        replay: the replay to draw and read from.
    """

    def __init__(self, replay: StepReplay):
        self.replay = replay

    @property
    def steps(self) -> int:
        """Number of environment steps published since the beginning."""
        return self.replay.steps

    @property
    def held(self) -> int:
        return self.replay.held

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Returns numbers of transitions for `read`, int64 of this shape.

        The generator is kept, for what `read` draws.

        Raises:
            SequenceError: there are none yet.
        """
        self._generator = generator
        return self.replay.draw(shape, generator)

    def read(self, numbers: Tensor) -> Transitions:
        """Returns the transitions with these numbers, int64[B]; see `StepReplay.read`."""
        return self.replay.read(numbers)

    def staleness(self, numbers: Tensor, version: int) -> Staleness:
        """Returns the age of transitions, by number, int64[B], where the newest weights have this version."""
        return self.replay.staleness(numbers, version)
