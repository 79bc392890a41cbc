"""Deep deterministic policy gradients: an actor that climbs its critic's slope with respect to the action.

The critic is fitted to one-step targets from slowly following copies of both.

Source: Lillicrap et al. 2016 (arXiv:1509.02971). Unlike there, exploration noise is uncorrelated, the action
enters the critic's first layer, nothing is batch-normalised, no weights decay, and gradients are clipped; Pardo et
al. 2018 (arXiv:1712.00378) for time limits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.actor_critic import ActorCritic
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.distributions import Deterministic
from headrace.train.modules.network import input_size
from headrace.train.modules.perceptron import Perceptron
from headrace.train.storage.device_replay import Transitions


class DDPG(OffPolicy):
    """A deterministic policy μ, its critic Q, and their targets μ' and Q'.

    Attributes:
        network: an `ActorCritic`.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network is to be another than an MLP.
    """

    critic_statistics = ("critic_loss", "q_mean", "critic_grad_norm")
    actor_statistics = ("actor_loss", "actor_grad_norm")
    statistics = (*critic_statistics, *actor_statistics)

    network: ActorCritic

    def _make(self) -> tuple[Any, nn.Module]:
        config, agent_group = self.config, self.agent_group
        distribution = Deterministic(agent_group.action, config.exploration_noise, self.device)
        inputs = input_size(agent_group.observation)
        actions, shape = distribution.size, (config.hidden, config.activation)
        return distribution, ActorCritic(
            Perceptron(inputs, actions, *shape, squash=True), Perceptron(inputs + actions, 1, *shape)
        )

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``mean((Q(s, a) - y)²)`` with ``y = r + discount · Q'(s', μ'(s'))``."""
        critic = self.network.critic
        following = torch.cat((batch.following, self.targets.actor(batch.following)), 1)
        after = self.targets.critic(following).squeeze(1)
        target = torch.addcmul(batch.rewards, batch.discounts, after)
        saved = critic.forward_saving(torch.cat((batch.inputs, batch.actions), 1))
        error = saved[-1].squeeze(1) - target
        critic.backward_into_gradients(saved, (2 / len(error)) * error.unsqueeze(1))
        norm = self._optimisers["critic"].step(rates.critic_learning_rate, rates.max_grad_norm)
        return torch.stack((error.square().mean(), saved[-1].mean(), norm))

    @torch.inference_mode()
    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``-mean(Q(s, μ(s)))``."""
        actor, critic = self.network.actor, self.network.critic
        actor_saved = actor.forward_saving(batch.inputs)
        saved = critic.forward_saving(torch.cat((batch.inputs, actor_saved[-1]), 1))
        d_input = critic.input_gradient(saved, torch.full_like(saved[-1], -1 / len(batch.rewards)))
        actor.backward_into_gradients(actor_saved, d_input[:, batch.inputs.shape[1] :])
        norm = self._optimisers["actor"].step(rates.learning_rate, rates.max_grad_norm)
        return torch.stack((-saved[-1].mean(), norm))
