"""The interface of a learner, as a run with workers calls it.

`headrace.train.workers.replay_learner.ReplayLearner` learns from a replay,
`headrace.train.workers.rollout_learner.RolloutLearner` from rollouts.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from headrace.train.config.settings import Config


class Learner(Protocol):
    """What learns in the process that was asked to train.

    Attributes:
        updates: gradient steps so far, those before a resumption included.
        config: the run's settings; the scheduled ones are read before each update.
        generator: the source of all randomness in learning.
    """

    updates: int
    generator: torch.Generator
    config: Config

    def publish(self) -> None:
        """Gives samplers the present weights."""
        ...

    def statistics(self) -> Tensor | None:
        """Returns the means of the policy's `statistics` over the updates since the last call; None without updates."""
        ...

    def settle(self) -> None:
        """Reads everything that another process has learnt."""
        ...

    def staleness(self) -> dict[str, float]:
        """Returns by name how old the data of the last update was."""
        ...
