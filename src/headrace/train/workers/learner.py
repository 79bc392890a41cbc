"""Learning: minibatches read where samplers write them, one update after the other.

The loop waits for nothing but data: what it finds out about itself stays in tensors until somebody asks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.config import Config
from headrace.train.off_policy.policy import OffPolicy, UpdateRates
from headrace.train.off_policy.steps import StepReplay
from headrace.train.workers.weights import WeightBuffer


class Learner:
    """A policy that learns from a replay and publishes what it has become.

    Attributes:
        updates: made so far, those before a resumption included.
        generator: draws minibatches.
    """

    def __init__(self, config: Config, policy: OffPolicy, replay: StepReplay, weights: WeightBuffer):
        self.config, self.policy, self.replay, self.weights = config, policy, replay, weights
        self.updates = 0
        self.generator = torch.Generator().manual_seed(config.seed)
        self._rates = UpdateRates.of(config, 0)
        self._measured = torch.zeros(len(policy.statistics), device=policy.device)
        self._since = 0
        self._rows = torch.zeros(config.minibatch_size, dtype=torch.int64)
        self.publish()

    @torch.inference_mode()
    def update(self) -> None:
        """One update, and its result for everybody."""
        self._rows = self.replay.draw((self.config.minibatch_size,), self.generator)
        self._measured += self.policy.improve(self.replay.read(self._rows), self._rates)
        self.updates += 1
        self._since += 1
        if self.updates % self.config.publish_every == 0:
            self.publish()

    def publish(self) -> None:
        """Give samplers the weights as they are."""
        self.weights.publish(self.policy.acting)

    def set_rates(self, step: int) -> None:
        """Follow the schedules of a run that is ``step`` agent steps old."""
        self._rates = UpdateRates.of(self.config, step)

    def statistics(self) -> Tensor | None:
        """Means over the updates since the last call, as `OffPolicy.statistics`; None if there were none."""
        if not self._since:
            return None
        means = self._measured / self._since
        self._measured.zero_()
        self._since = 0
        return means

    def staleness(self) -> dict[str, float]:
        """How old the last minibatch was, on average: in steps of its environments, and in versions of the weights."""
        if not self.updates:
            return {}
        steps, versions = self.replay.staleness(self._rows, self.weights.version)
        return {"steps": float(steps.double().mean()), "versions": float(versions.double().mean())}
