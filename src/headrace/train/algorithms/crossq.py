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

from headrace.train.algorithms.off_policy import Losses, OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac import SoftActorCritic
from headrace.train.config.algorithms import CrossQConfig
from headrace.train.modules.batch_renorm import NormalisedCritics, NormalisedPerceptron, Renorm, running_statistics
from headrace.train.modules.exploration import SquashedGaussian
from headrace.train.modules.network import input_size
from headrace.train.storage.transitions import Transitions


class CrossQ(OffPolicy):
    """A stochastic policy π, its critics Q, and the temperature α; there are no targets.

    Attributes:
        network: a `SoftActorCritic` of normalised perceptrons.
        target_entropy: the entropy that the temperature keeps the actor at, in nats.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network does not fit.
    """

    settings = CrossQConfig
    config: CrossQConfig
    critic_statistics = ("critic_loss", "q_mean")
    actor_statistics = ("actor_loss", "entropy", "temperature")
    statistics = (*critic_statistics, *actor_statistics)
    target_parts = ()

    network: SoftActorCritic
    distribution: SquashedGaussian

    def _make(self) -> tuple[Any, nn.Module]:
        config, inputs = self.config, input_size(self.agent_group.observation)
        self.actor_every = config.policy_delay
        self.betas = (config.adam_beta, 0.999)
        distribution = SquashedGaussian(self.agent_group.action, self.device)
        actions = distribution.noise_size
        self.target_entropy = -float(actions) if config.target_entropy is None else config.target_entropy
        how = config.activation, Renorm(config.batch_momentum, config.renorm_after)
        actor = NormalisedPerceptron(inputs, 2 * actions, config.hidden, *how)
        critic = NormalisedCritics(inputs + actions, config.critic_hidden or config.hidden, *how)
        return distribution, SoftActorCritic(actor, critic, config.initial_temperature)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``½ Σ mean((Q(s, a) - y)²)`` over the critics.

        Here ``y = r + discount · (min Q(s', a') - α log π(a'|s'))``. Q(s, a) and Q(s', a') are computed in one batch;
        there is no gradient through the latter.
        """
        with torch.no_grad():
            next_actions, next_log_prob = self._sample(self.network.actor(batch.next_observations))
            alpha = self.network.temperature.log.exp()
        rows = len(batch.rewards)
        both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, next_actions))
        values, next_q = self.network.critic.of_batch(*both).split(rows, 1)
        target = batch.rewards + batch.discounts * (next_q.detach().amin(0) - alpha * next_log_prob)
        loss = batch.mean((values - target).square()).sum() / 2
        return Losses({"critic": loss}, (loss, values.mean()))

    def actor_losses(self, batch: Transitions) -> Losses:
        """Returns ``mean(α log π(a|s) - min Q(s, a))``; for α, ``-log α · mean(log π(a|s) + target entropy)``.

        The critics use running statistics, since their own batches also contain actions of earlier policies.
        """
        actions, log_prob = self._sample(self.network.actor.of_batch(batch.inputs))
        log_alpha = self.network.temperature.log
        alpha, entropy = log_alpha.exp().detach(), -log_prob.detach().mean()
        loss = (alpha * log_prob - self.network.critic(batch.inputs, actions).amin(0)).mean()
        temperature = (log_alpha * (entropy - self.target_entropy)).sum()
        return Losses({"actor": loss, "temperature": temperature}, (loss, entropy, alpha[0]))

    def improve(self, batch: Transitions, rates: UpdateRates, actor: bool = True) -> Tensor:
        """Makes an update, as `OffPolicy.improve`, and averages running statistics over all training processes."""
        measured = super().improve(batch, rates, actor)
        if self.process_group is not None:
            for each in (*running_statistics(self.network), *running_statistics(self.targets)):
                self.process_group.average(each, len(batch.rewards))
        return measured

    def _sample(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """Returns actions float32[B, A] and their log-probabilities float32[B]."""
        return self.distribution.rsample(params, self.noise(len(params)))
