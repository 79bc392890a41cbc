"""The learner of a replay that samplers fill; with a free replay ratio, neither waits for the other.

It publishes the weights after each update, or after a few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.updater import Updater
from headrace.train.collect.steps import make_replay
from headrace.train.config.settings import Config
from headrace.train.processes.counters import Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runners.pace import Pace
from headrace.train.runners.parts import Figures, Learner
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.device_replay import Replay
from headrace.train.storage.files import ReplayFiles
from headrace.train.storage.sampled_rewards import SampledRewards
from headrace.train.workers.actor_learner import CRITIC, Exchange
from headrace.train.workers.rate_limiter import RateLimiter

HEAD_START = 100  # maximum number of updates of the critics before the process that learns the actor has started


class ReplayLearner(Learner):
    """A policy that learns from a replay when the replay ratio allows it, and publishes its weights.

    Attributes:
        memory: the replay, a `StepReplay`.
        updater: makes the updates.
        apart: whether another process learns the actor, and this one the critics.
        rate_limiter: decides which updates are due, and which steps are allowed.
        emptied: agent steps and updates of the run when its replay was last empty, from which the limiter counts both.
        exchange: the weights that the processes of an actor and of its critics send each other.
    """

    def __init__(self, config: Config, policy: OffPolicy, counters: Counters, weights: WeightBuffer, run: RunFolder):
        self.config: Any = config
        self.policy, self._counters = policy, counters
        self.memory, self.emptied = make_replay(config, sum(policy.heads)), (0, 0)
        self._files = ReplayFiles(self.memory, run.replay)
        self.exchange = Exchange(policy, weights, apart=self.config.apart)
        self.apart: bool = self.config.apart
        self.updater = Updater(policy, self.memory, part="critics" if self.apart else "all")
        self._actor_measured = torch.zeros(len(policy.actor_statistics), dtype=torch.float64)
        scaler = policy.reward_scaler
        self._rewards = None if scaler is None else SampledRewards(self.memory, scaler)
        self.rate_limiter = RateLimiter(config, counters)
        self.pace = Pace(self.update, lambda: self.finished(0), lambda: self.updater.updates)

    def begin(self, interrupt: object) -> None:
        self.updater.set_rates(self._counters.total_steps())
        self.exchange.publish_actor(self.policy)
        if self.apart:
            self.exchange.publish_moments(self.policy, self._actor_measured)
            self.publish()
        self.pace.begin()

    def learn(self, rollouts: list[Any], step: int) -> None:
        self.updater.set_rates(step)
        self.pace.run()

    def update(self) -> bool:
        """Makes one update if one is due; returns whether it did."""
        made, limiter = self.updater.updates, self.rate_limiter
        if made >= limiter.due(self._counters.total_steps()) or not self.memory.held:
            return False
        if self.apart and not self._counters.actor_updates[0] and made > HEAD_START:
            return False  # further updates would fit the critics to the initial actor
        if self._rewards is not None:
            self._rewards.follow()
        self.updater.update()
        if self.updater.updates % self.config.publish_every == 0:
            self.publish()
        limiter.note(self.updater.updates)
        return True

    def finished(self, step: int) -> bool:
        """Returns whether all steps, and all updates that the replay ratio requires, are done."""
        steps = self._counters.total_steps()
        if steps < self.config.total_steps:
            return False
        return self.config.replay_ratio is None or self.updater.updates >= self.rate_limiter.due(steps)

    def publish(self) -> None:
        """As `Learner.publish`, of the parts that this process learns; reads those that another process learns."""
        if self.apart:
            self.exchange.critics.publish(self.policy.parts[CRITIC])
            self.exchange.take_actor(self.policy)
        else:
            self.exchange.publish_actor(self.policy)

    def settle(self) -> None:
        if self.apart:
            self.exchange.take_actor(self.policy)
            self.exchange.take_moments(self.policy, self._actor_measured)

    def set_rates(self, config: Config) -> None:
        if self.apart:
            before = self.config.schedules
            name = min(name for name, points in config.schedules.items() if points != before.get(name))
            raise OptionError(
                f"{name} cannot change while the actor learns in a process of its own: train with actor_device=''"
            )

    def report(self) -> None:
        losses = self.updater.statistics()
        if losses is None:
            return
        if self.apart:
            self.settle()
            losses[len(self.policy.critic_statistics) :] = self._actor_measured
        self.policy.losses = losses

    def figures(self) -> Figures:
        """As `Learner.figures`, with the mean age of the last batch, in steps of its environments and in versions."""
        replay, staleness = self.updater.replay, {}
        if not isinstance(replay, Replay) and len(replay.numbers):
            ages = self.memory.staleness(replay.numbers, self.exchange.weights.version)
            staleness = {name: float(each.double().mean()) for name, each in ages._asdict().items()}
        return self.pace.figures(self.config.minibatch_size, staleness=staleness)

    # -- checkpoints -----------------------------------------------------------------------------

    def counters(self) -> dict[str, Any]:
        rows = {"replay": self.memory.arrays["written"].tolist()} if self.config.save_replay else {}
        return {"updates": self.updater.updates, "emptied": self.emptied, **rows}

    def state(self) -> dict[str, Tensor]:
        return {"generator": self.updater.generator.get_state()}

    def load(self, point: Checkpoint, step: int) -> None:
        """As `Learner.load`; the replay stays empty if it was not saved or does not fit any more."""
        updates = self.updater.updates = point.counters["updates"]
        self.updater.generator.set_state(point.state["generator"])
        rows, starts = point.counters.get("replay"), self.config.learning_starts
        left_out = self._files.without("save_replay=False left it out", starts)
        self.policy.caveat = left_out if rows is None else self._files.load_or_say(rows, starts)
        self.emptied = step, updates
        if self.policy.caveat is None:  # a checkpoint of format 1 lacks the entry; its replay was empty at the start
            self.emptied = tuple(point.counters.get("emptied", (0, 0)))
        self._counters.actor_updates[0] = updates // self.policy.actor_every
        self.rate_limiter = RateLimiter(self.config, self._counters, updates, self.emptied)
        self.publish()

    def write(self, counters: Mapping[str, Any]) -> None:
        if self.config.save_replay:
            self._files.save(counters["replay"])

    def close(self) -> None:
        self.exchange.close()
