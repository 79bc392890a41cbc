"""Policies that learn from each rollout of a pool in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.config.settings import Config
from headrace.train.logging.timer import Timer
from headrace.train.runners.parts import Learner
from headrace.train.runs.checkpoint import Checkpoint


class PolicyLearner(Learner):
    """The updates of all policies of a run.

    Args:
        generator: draws minibatches.

    Attributes:
        iteration: number of rollouts learnt from so far.
    """

    def __init__(self, config: Config, policies: Sequence[Policy], generator: torch.Generator, device: torch.device):
        self.config, self.policies, self.generator = config, policies, generator
        self.iteration = 0
        self._timer = Timer(device, "learning")

    def learn(self, rollouts: list[Any], step: int) -> None:
        self._timer.start()
        for policy, samples in zip(self.policies, rollouts, strict=True):
            policy.learn(samples, step, self.generator)
        self.iteration += 1
        self._timer.lap("learning")

    def finished(self, step: int) -> bool:
        return step >= self.config.total_steps

    def split(self) -> dict[str, float]:
        """Returns the seconds of updates, on a GPU those of the device."""
        return self._timer.seconds()

    def counts(self) -> dict[str, int]:
        return {"iteration": self.iteration}

    def state(self) -> dict[str, Tensor]:
        return {name: tensor for policy in self.policies for name, tensor in policy.state().items()}

    def load(self, point: Checkpoint, step: int) -> None:
        self.iteration = point.counters["iteration"]
        for policy in self.policies:
            policy.load_state(point.state)
