"""CrossQ: soft actor-critic without target networks, whose critics use batch normalisation.

States and following states are in one batch, so that the same statistics normalise both. That makes learning from the
critics' own values stable without target networks.

Sources: Bhatt et al. 2024 (arXiv:1902.05605); Haarnoja et al. 2018 (arXiv:1812.05905) for the rest of the losses;
Pardo et al. 2018 (arXiv:1712.00378) for time limits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.crossq import settings
from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac.sac import SoftActorCritic, SoftOffPolicy
from headrace.train.modules.actor_critic import make_trunk
from headrace.train.modules.batch_renorm import NormalisedCritics, NormalisedPerceptron, Renorm, running_statistics
from headrace.train.storage.transitions import Transitions


class CrossQ(SoftOffPolicy):
    """A stochastic policy π, its critics Q, and the temperature α; there are no targets.

    The actor's loss uses the critics' running statistics, since their own batches also contain actions of earlier
    policies.

    Attributes:
        network: a `SoftActorCritic` of normalised perceptrons.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network does not fit.
    """

    settings = settings.CROSSQ
    target_parts = ()

    def make(self) -> tuple[Any, nn.Module]:
        config = self.config
        trunk, inputs = make_trunk(self.agent_group.observation, config.network, config.trunk, config.bf16)
        self.actor_every = config.policy_delay
        self.betas = (config.adam_beta, 0.999)
        distribution = self.make_distribution()
        actions = distribution.noise_size
        how = config.activation, Renorm(config.batch_momentum, config.renorm_after)
        actor = NormalisedPerceptron(inputs, 2 * actions, config.hidden, *how)
        critic = NormalisedCritics(inputs + actions, config.critic_hidden or config.hidden, *how)
        return distribution, SoftActorCritic(actor, critic, config.initial_temperature, trunk)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``½ Σ mean((Q(s, a) - y)²)`` over the critics.

        Here ``y = r + discount · (min Q(s', a') - α log π(a'|s'))``. Q(s, a) and Q(s', a') are computed in one batch;
        there is no gradient through the latter.
        """
        with torch.no_grad():
            next_actions, next_log_prob = self.sample(self.network.actor(batch.next_observations))
            alpha = self.network.temperature.log.exp()
        rows = len(batch.rewards)
        both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, next_actions))
        values, next_q = self.network.critic.of_batch(*both).split(rows, 1)
        target = batch.rewards + batch.discounts * (next_q.detach().amin(0) - alpha * next_log_prob)
        loss = batch.mean((values - target).square()).sum() / 2
        return Losses({"critic": loss}, (loss, values.mean()))

    def actor_params(self, batch: Transitions) -> Tensor:
        return self.network.actor.of_batch(batch.inputs)

    def improve(self, batch: Transitions, rates: UpdateRates, actor: bool = True, critics: bool = True) -> Tensor:
        """Makes an update, as `OffPolicy.improve`, and averages running statistics over all training processes."""
        measured = super().improve(batch, rates, actor, critics)
        if self.process_group is not None:
            for each in (*running_statistics(self.network), *running_statistics(self.targets)):
                self.process_group.average(each, len(batch.rewards))
        return measured
