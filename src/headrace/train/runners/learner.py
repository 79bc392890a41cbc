"""The interface of a learner for a run with workers.

`headrace.train.workers.replay_learner.ReplayLearner` learns from a replay,
`headrace.train.workers.rollout_learner.RolloutLearner` from rollouts.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from headrace.train.config.settings import Config


class Learner(Protocol):
    """The part of a run with workers that learns, in the main process.

    Attributes:
        updates: number of gradient steps so far, including those before a resumption.
        config: the run's settings; scheduled ones are read before each update.
        generator: the source of all random numbers in learning.
    """

    updates: int
    generator: torch.Generator
    config: Config

    def publish(self) -> None:
        """Publishes the present weights to samplers."""
        ...

    def statistics(self) -> Tensor | None:
        """Returns the means of the policy's `statistics` over the updates since the last call; None without updates."""
        ...

    def settle(self) -> None:
        """Reads the newest weights and optimiser state of another process that learns, if there is one."""
        ...

    def staleness(self) -> dict[str, float]:
        """Returns measures of the age of the last update's data, by name."""
        ...
