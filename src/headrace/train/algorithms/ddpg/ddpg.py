"""Deep deterministic policy gradients: the actor follows the gradient of its critic with respect to the action.

The critic is fitted to one-step targets of target networks of both.

Sources: Lillicrap et al. 2016 (arXiv:1509.02971); Pardo et al. 2018 (arXiv:1712.00378) for time limits. Unlike in the
former, exploration noise is uncorrelated, the action is an input of the critic's first layer, there is neither batch
normalisation nor weight decay, and gradients are clipped.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.compiled_updates import CompiledActorCritic
from headrace.train.algorithms.ddpg import settings
from headrace.train.algorithms.off_policy import Losses, OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.actor_critic import ActorCritic, make_actor_critic
from headrace.train.modules.exploration import Deterministic
from headrace.train.storage.transitions import Transitions


class DDPG(OffPolicy):
    """A deterministic policy μ, its critic Q, and their targets μ' and Q'.

    Attributes:
        network: an `ActorCritic`.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network does not fit.
    """

    settings = settings.DDPG
    compiled_form = CompiledActorCritic
    critic_statistics = ("critic_loss", "q_mean", "critic_gradient_norm")
    actor_statistics = ("actor_loss", "actor_gradient_norm")
    statistics = (*critic_statistics, *actor_statistics)
    clips_gradients = True

    network: ActorCritic

    def make(self) -> tuple[Any, nn.Module]:
        config = self.config
        distribution = Deterministic(self.agent_group.action, config.exploration_noise, self.device)
        actions = distribution.size
        shape = actions, actions, config.network, config.hidden, config.activation, config.trunk, config.bf16
        parts = make_actor_critic(self.agent_group.observation, *shape, squash=True, twin=False)
        return distribution, ActorCritic(*parts)

    def update_at_once(self, batch: Transitions, rates: UpdateRates, *, critics: bool, actor: bool) -> Tensor:
        return self.compiled.update(batch._replace(weights=None), rates, critics, actor, critic_weight=1.0)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``mean((Q(s, a) - y)²)`` with ``y = r + discount · Q'(s', μ'(s'))``."""
        with torch.no_grad():
            next_q = self.targets.critic(batch.next_observations, self.targets.actor(batch.next_observations))[0]
            target = batch.rewards + batch.discounts * next_q
        values = self.network.critic(batch.inputs, batch.actions)[0]
        loss = (values - target).square().mean()
        return Losses({"critic": loss}, (loss, values.mean()))

    def actor_losses(self, batch: Transitions) -> Losses:
        """Returns ``-mean(Q(s, μ(s)))``."""
        loss = -self.network.critic(batch.inputs, self.network.actor(batch.inputs))[0].mean()
        return Losses({"actor": loss}, (loss,))
