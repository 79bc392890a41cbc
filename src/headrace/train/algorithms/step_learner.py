"""Learning from a replay of steps: reads minibatches, and makes one update after the other.

Nothing waits for the device: statistics of updates stay in tensors until they are read. Runs in one process use this
class directly; with workers, `headrace.train.workers.replay_updates` also publishes the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from headrace.train.algorithms.graphs import Graph
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.updater import Updater
from headrace.train.config.replay import ReplayConfig
from headrace.train.config.settings import Config
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.storage.device_mirror import replay_on
from headrace.train.storage.hindsight import HindsightReplay, goals_for
from headrace.train.storage.minibatches import Minibatches
from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.storage.replay_wrapper import ReplayWrapper
from headrace.train.storage.step_replay import StepReplay


class StepLearner:
    """A policy that learns from a replay of steps.

    Args:
        replay: the replay, which may be written to during updates.

    Attributes:
        replay: the source of minibatches: the replay or its copy on the policy's device, or a `PrioritisedReplay` or a
            `HindsightReplay` over either.
        updates: number of updates so far, including those before a resumption.
    """

    def __init__(self, config: ReplayConfig, policy: OffPolicy, replay: StepReplay):
        self.config: Config = config
        self.policy, self._n_step = policy, replay.n_step
        self.replay = drawn_from(config, replay_on(policy.device, replay))
        self.updates = 0
        self.generator = torch.Generator().manual_seed(config.seed)
        self._rates = UpdateRates.of(config, 0)
        self._measured = torch.zeros(len(policy.statistics), device=policy.device)
        self._since = 0
        self.minibatches = minibatches_of(config, policy, self.replay, self._n_step)
        self._improve = self._updater()

    def _updater(self) -> Updater:
        return Updater(self.policy, self.minibatches.read, self.policy.graphs)

    @torch.inference_mode()
    def update(self) -> None:
        if not self.updates:
            self.policy.prepare(self._observed)
        self.minibatches.draw(self.generator)
        self.updates += 1
        self._since += 1
        measured = self._improve(self._rates)
        self._measured[: len(measured)] += measured
        if isinstance(self.replay, PrioritisedReplay):
            self.replay.update(self.minibatches.numbers, self.policy.errors)

    def _observed(self, count: int) -> Tensor:
        return self.replay.read(self.replay.draw((count,), self.generator)).inputs

    def set_rates(self, step: int) -> None:
        """Sets scheduled settings to their values at agent step ``step``."""
        config: Any = self.config
        self._rates = UpdateRates.of(config, step)
        if isinstance(self.replay, PrioritisedReplay) and config.priorities is not None:
            (_, least), progress = config.priorities, min(1.0, step / config.total_steps)
            self.replay.importance = least + progress * (1 - least)

    def statistics(self) -> Tensor | None:
        """Returns means over the updates since the last call, see `OffPolicy.statistics`; None if there were none."""
        if not self._since:
            return None
        means = self._measured / self._since
        self._measured.zero_()
        self._since = 0
        return means

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint: the generator's state, and priorities if transitions have them."""
        state = {"drawing": self.generator.get_state()}
        if isinstance(self.replay, PrioritisedReplay):
            state |= checkpoints.prefixed("priorities", self.replay.state())
        return state

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores the tensors of `state`, after the replay; without priorities, all of them begin with the highest."""
        self.generator.set_state(state["drawing"])
        priorities = checkpoints.group("priorities", state)
        if isinstance(self.replay, PrioritisedReplay) and priorities:
            self.replay.load(priorities)


def minibatches_of(
    config: ReplayConfig, policy: OffPolicy, replay: StepReplay | ReplayWrapper, n_step: int
) -> Minibatches:
    in_place = policy.graphs and Graph.possible(policy.device)
    normalised = partial(policy.normalised, steps=n_step)
    return Minibatches(replay, config.minibatch_size, normalised, policy.device, in_place)


def drawn_from(config: ReplayConfig, replay: StepReplay) -> StepReplay | ReplayWrapper:
    """Returns the source of minibatches: the replay itself, or one over it that draws by priority or replaces goals."""
    if config.hindsight:
        return HindsightReplay(replay, goals_for(config), config.hindsight)
    return replay if config.priorities is None else PrioritisedReplay(replay, *config.priorities)
