"""The learner of a run with workers: learns from the replay that samplers write to, and publishes its weights.

Its loop waits only for data.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.step_learner import StepLearner
from headrace.train.algorithms.updater import Updater
from headrace.train.modules.normalisation import RewardScaler
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers.actor_learner import CRITIC, Exchange


class ReplayUpdates(StepLearner):
    """A policy that learns from a replay and publishes its weights.

    Args:
        config: the run's settings; with an ``actor_device``, another process learns the actor, and this one critics.
        policy, replay: as for `StepLearner`.
        exchange: the weights that this process publishes, and those that it reads.
    """

    def __init__(self, config: Any, policy: OffPolicy, replay: StepReplay, exchange: Exchange):
        super().__init__(config, policy, replay)
        self.exchange, self.apart = exchange, config.apart
        self._actor_measured = torch.zeros(len(policy.actor_statistics), dtype=torch.float64)
        self._steps = replay
        self._scalers: list[RewardScaler] = []  # of each sampler, with common statistics
        self._followed: list[int] = []  # rows of each sampler that the statistics hold

    def update(self) -> None:
        if self.policy.reward_scaler is not None:
            self._follow(self.policy.reward_scaler)
        super().update()
        if self.updates % self.config.publish_every == 0:
            self.publish()

    def _updater(self) -> Updater:
        if not self.config.apart:
            return super()._updater()
        return Updater(self.policy, self.minibatches.read, self.policy.graphs, self.policy.improve_critics_apart)

    @torch.inference_mode()
    def _follow(self, scaler: RewardScaler) -> None:
        """Updates the statistics of returns with the steps that samplers have written since the last call."""
        replay = self._steps
        if not self._scalers:
            self._scalers = [copy.copy(scaler) for _ in range(replay.layout.segments)]
            for each in self._scalers:
                each.running = torch.zeros_like(scaler.running)
            resumed = bool(scaler.statistics.count)
            self._followed = [int(rows) if resumed else 0 for rows in replay.arrays["written"]]
        for segment, each in enumerate(self._scalers):
            steps = replay.steps_since(segment, self._followed[segment])
            self._followed[segment] = steps.rows
            if len(steps.rewards):
                each.running.masked_fill_(steps.begins, 0.0)
                each.update(*(part.to(self.policy.device) for part in (steps.rewards, steps.ends, steps.taken)))

    def begin(self) -> None:
        self.exchange.publish_actor(self.policy)
        if self.apart:
            self.exchange.publish_moments(self.policy, self._actor_measured)
            self.publish()

    def publish(self) -> None:
        """Publishes the parts that this process learns, and reads those that another process learns."""
        if self.apart:
            self.exchange.critics.publish(self.policy.parts[CRITIC])
            self.exchange.take_actor(self.policy)
        else:
            self.exchange.publish_actor(self.policy)

    def settle(self) -> None:
        if self.apart:
            self.exchange.take_actor(self.policy)
            self.exchange.take_moments(self.policy, self._actor_measured)

    def statistics(self) -> Tensor | None:
        means = super().statistics()
        if means is not None and self.apart:
            self.settle()
            means[len(self.policy.critic_statistics) :] = self._actor_measured
        return means

    def staleness(self) -> dict[str, float]:
        """Returns the mean age of the last minibatch, in steps of its environments and in versions of the weights."""
        if not self.updates:
            return {}
        steps, versions = self.replay.staleness(self.minibatches.numbers, self.exchange.weights.version)
        return {"steps": float(steps.double().mean()), "versions": float(versions.double().mean())}
