"""The learner: reads minibatches from the replay that samplers write to, and makes one update after the other.

The loop waits for data only: its statistics stay in tensors until they are read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.updater import Updater
from headrace.train.config.settings import Config
from headrace.train.storage.device_mirror import replay_on
from headrace.train.storage.device_replay import Transitions
from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers.actor_learner import CRITIC, Exchange


class ReplayLearner:
    """A policy that learns from a replay and publishes its weights.

    Args:
        config: the run's settings; with an ``actor_device``, another process learns the actor, and this one critics.

    Attributes:
        updates: number of updates so far, including those before a resumption.
        generator: draws minibatches.
    """

    def __init__(self, config: Config, policy: OffPolicy, replay: StepReplay, exchange: Exchange):
        self.config, self.policy, self.exchange = config, policy, exchange
        self.replay = drawn_from(config, replay_on(policy.device, replay))
        self.updates = 0
        self.generator = torch.Generator().manual_seed(config.seed)
        self.apart = config.apart
        self._rates = UpdateRates.of(config, 0)
        self._measured = torch.zeros(len(policy.statistics), device=policy.device)
        self._actor_measured = torch.zeros(len(policy.actor_statistics), dtype=torch.float64)
        self._since = 0
        self._rows = torch.zeros(config.minibatch_size, dtype=torch.int64)
        self._batch: Transitions | None = None
        self._improve = Updater(policy, self._last_batch, config.graphs)

    @torch.inference_mode()
    def update(self) -> None:
        """Makes one update, and publishes its result."""
        if not self.updates:
            self.policy.prepare(self._observed)
        rows = self._rows = self.replay.draw((self.config.minibatch_size,), self.generator)
        batch = self._batch = self._in_place(self.replay.read(rows))
        self.updates += 1
        self._since += 1
        if self.apart:
            self._measured[: len(self.policy.critic_statistics)] += self.policy.improve_critics(batch, self._rates)
            if self.updates % self.policy.actor_every == 0:
                self.policy.move_targets()
        else:
            self._measured += self._improve(self._rates)
        if isinstance(self.replay, PrioritisedReplay):
            self.replay.update(rows, self.policy.errors)
        if self.updates % self.config.publish_every == 0:
            self.publish()

    def _observed(self, count: int) -> Tensor:
        return self.replay.read(self.replay.draw((count,), self.generator)).inputs

    def _last_batch(self) -> Transitions:
        assert self._batch is not None
        return self._batch

    def _in_place(self, batch: Transitions) -> Transitions:
        """Copies the batch to the memory that a CUDA graph of an update reads."""
        if self.policy.device.type == "cpu":
            return batch
        if self._batch is None:
            return Transitions(
                **{name: tensor.clone() for name, tensor in batch._asdict().items() if tensor is not None}
            )
        for name, there in self._batch._asdict().items():
            if there is not None:
                there.copy_(getattr(batch, name))
        return self._batch

    def begin(self) -> None:
        """Publishes the weights before the first update."""
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
        """Reads everything that another process has learnt, for a checkpoint or a report."""
        if self.apart:
            self.exchange.take_actor(self.policy)
            self.exchange.take_moments(self.policy, self._actor_measured)

    def set_rates(self, step: int) -> None:
        """Sets scheduled settings to their values at agent step ``step``."""
        config = self.config
        self._rates = UpdateRates.of(config, step)
        if isinstance(self.replay, PrioritisedReplay) and config.priorities is not None:
            (_, least), progress = config.priorities, min(1.0, step / config.total_steps)
            self.replay.importance = least + progress * (1 - least)

    def statistics(self) -> Tensor | None:
        """Returns means over the updates since the last call, see `OffPolicy.statistics`; None if there were none."""
        if not self._since:
            return None
        means = self._measured / self._since
        if self.apart:
            self.settle()
            means[len(self.policy.critic_statistics) :] = self._actor_measured
        self._measured.zero_()
        self._since = 0
        return means

    def staleness(self) -> dict[str, float]:
        """Returns the mean age of the last minibatch, in steps of its environments and in versions of the weights."""
        if not self.updates:
            return {}
        steps, versions = self.replay.staleness(self._rows, self.exchange.weights.version)
        return {"steps": float(steps.double().mean()), "versions": float(versions.double().mean())}


def drawn_from(config: Config, replay: StepReplay) -> StepReplay | PrioritisedReplay:
    """Returns the replay, or where transitions are drawn by their errors a `PrioritisedReplay` over it."""
    return replay if config.priorities is None else PrioritisedReplay(replay, *config.priorities)
