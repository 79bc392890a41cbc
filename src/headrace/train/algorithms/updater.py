"""Updates from a replay: draws a batch, makes one update after the other, and counts them.

It is the same for runs that collect and learn in turn and for those with samplers, from a ring on the device and from a
replay of steps. Nothing waits for the device: statistics of updates stay in tensors until they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.graphs import Graph
from headrace.train.modules.network import uses_cnn
from headrace.train.modules.random_shift import shifted
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.replays import RandomShift, priorities
from headrace.train.storage.device_step_replay import replay_on
from headrace.train.storage.hindsight import HindsightReplay, goals_for
from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transition_replay import TransitionReplay
from headrace.train.storage.transitions import Transitions, normalised


class Updater:
    """A policy that learns from a replay.

    On CUDA each update is the replay of a captured graph, of one for updates with the actor or one for those without.

    Args:
        replay: a ring on the policy's device, or a replay of steps, which may be written to during updates.
        generator: draws transitions; by default a new one on the CPU, with the seed of the run.
        part: what this process learns: ``"critics"`` and targets, the ``"actor"`` and its temperature, or ``"all"``.

    Attributes:
        replay: the source of batches: the replay or its copy on the policy's device, or a `PrioritisedReplay` or a
            `HindsightReplay` over either.
        updates: number of updates so far, including those before a resumption.
    """

    def __init__(
        self,
        policy: OffPolicy,
        replay: TransitionReplay | StepReplay,
        generator: torch.Generator | None = None,
        part: Literal["all", "critics", "actor"] = "all",
    ):
        self.policy, self.updates, self._since = policy, 0, 0
        self.replay = replay if isinstance(replay, TransitionReplay) else _drawn_from(policy, replay)
        self.generator = generator or torch.Generator().manual_seed(policy.config.seed)
        self.part = part
        self._given: UpdateRates | None = None
        self._rate_values = torch.zeros(len(UpdateRates._fields), device=policy.device)
        self._measured = torch.zeros(len(policy.statistics), device=policy.device)
        self._actor_measured = torch.zeros(len(policy.actor_statistics), device=policy.device)
        self._graphs = {
            due: Graph(partial(self._once, due), policy.device, policy.graphs, (policy.generator,))
            for due in (False, True)
        }
        self.set_rates(0)

    def set_rates(self, step: int) -> None:
        """Sets scheduled settings to their values at agent step ``step``."""
        config, rates = self.policy.config, UpdateRates.of(self.policy.config, step)
        if rates != self._given:
            self._given = self._rates = rates
            if Graph.possible(self.policy.device):
                self._rate_values.copy_(torch.tensor(rates), non_blocking=True)
                self._rates = UpdateRates(*self._rate_values.unbind())
        if isinstance(self.replay, PrioritisedReplay):
            least, progress = config.importance_exponent, min(1.0, step / config.total_steps)
            self.replay.importance = least + progress * (1 - least)

    def learn(self, before: float, after: float, step: int) -> None:
        """Makes the updates that are due, on average ``replay_ratio`` for each agent step.

        Args:
            before, after: agent steps of this process since the replay was empty, before and after the last rollout.
            step: agent steps of the run.

        Raises:
            OptionError: ``replay_ratio`` is None, which is for samplers.
        """
        config = self.policy.config
        if config.replay_ratio is None:
            raise OptionError("replay_ratio=None is for runs with samplers; with samplers=0 it must be a number")
        if after < config.learning_starts:
            return
        self.set_rates(step)
        for _ in range(int(config.replay_ratio * after) - int(config.replay_ratio * before)):
            self.update()
        losses = self.statistics()
        self.policy.losses = self.policy.losses if losses is None else losses

    def explore(self, step: int, collected: float) -> None:
        """Sets the exploration of the next steps; see `OffPolicy.begins_uniformly`, if nothing was learnt.

        Args:
            step: agent steps of the run.
            collected: those of this process since the replay was empty.
        """
        self.policy.explore(step, not self.updates and self.policy.begins_uniformly(collected))

    @torch.inference_mode()
    def update(self) -> Tensor:
        """Makes one update; returns its statistics, float32, which the next call may overwrite."""
        policy, replay = self.policy, self.replay
        if not self.updates:
            policy.prepare(lambda count: replay.sample(count, self.generator).inputs)
        batch = replay.sample(policy.config.minibatch_size, self.generator)
        self.updates += 1
        self._since += 1
        measured = self._graphs[self.updates % policy.actor_every == 0](batch, self._rates)
        self._measured[: len(measured)] += measured
        if isinstance(replay, PrioritisedReplay):
            replay.update(replay.numbers, policy.errors)
        return measured

    def _once(self, due: bool, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes an update; of the actor and the targets, too, if it is due for both."""
        policy, critics = self.policy, self.part != "actor"
        batch = normalised(self._shifted(batch), policy.encoder, policy.reward_scaler, self.replay.n_step)
        measured = policy.improve(batch, rates, (due and self.part == "all") or not critics, critics)
        if self.part == "critics" and due:
            policy.move_targets()
        if self.part != "all":
            return measured
        if not due:  # the actor's statistics are those of its last update
            return torch.cat((measured, self._actor_measured))
        self._actor_measured.copy_(measured[len(policy.critic_statistics) :])
        return measured

    @torch.inference_mode(False)  # of tensors that are made in it autograd would need copies
    def _shifted(self, batch: Transitions) -> Transitions:
        """Returns transitions with randomly moved pictures, if the settings ask for it."""
        config, space = self.policy.config, self.policy.agent_group.observation
        shift = config.get(RandomShift)
        if shift is None or not shift.random_shift or not uses_cnn(config.network, space):
            return batch
        both = batch.inputs, batch.next_observations
        seen, following = (shifted(observed, space, shift.random_shift, self.policy.generator) for observed in both)
        return batch._replace(inputs=seen, next_observations=following)

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
        """Returns the tensors of a checkpoint, beside the policy's and those of the replay."""
        learning = {"generator": self.policy.generator.get_state(), "actor": self._actor_measured}
        return checkpoints.prefixed(self.policy.prefix("learning"), learning)

    def load(self, saved: Mapping[str, Tensor]) -> None:
        """Restores the tensors of `state`, after the policy's optimisers."""
        learning = checkpoints.group(self.policy.prefix("learning"), saved)
        self.policy.generator.set_state(learning["generator"])
        self._actor_measured.copy_(learning["actor"])
        self.updates = self.policy.updates


def _drawn_from(policy: OffPolicy, replay: StepReplay) -> StepReplay | PrioritisedReplay | HindsightReplay:
    """Returns the source of batches on the policy's device: one that draws by priority or replaces goals, if asked."""
    config, there = policy.config, replay_on(policy.device, replay, policy.graphs)
    if config.hindsight:
        return HindsightReplay(there, goals_for(config), config.hindsight)
    exponents = priorities(config)
    return there if exponents is None else PrioritisedReplay(there, *exponents)
