"""Twin delayed DDPG: the lower of two critics' values, smoothed target actions, and fewer updates of the actor.

Source: Fujimoto et al. 2018 (arXiv:1802.09477); Pardo et al. 2018 (arXiv:1712.00378) for time limits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.compiled_updates import CompiledActorCritic
from headrace.train.algorithms.off_policy import Losses, OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.td3 import settings
from headrace.train.modules.actor_critic import ActorCritic, make_actor_critic
from headrace.train.modules.exploration import Deterministic
from headrace.train.storage.transitions import Transitions


class TD3(OffPolicy):
    """A deterministic policy μ, its critics Q, and their targets μ' and Q'.

    Attributes:
        network: an `ActorCritic`.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network does not fit.
    """

    settings = settings.TD3
    compiled_form = CompiledActorCritic
    critic_statistics = ("critic_loss", "q_mean")
    actor_statistics = ("actor_loss",)
    statistics = (*critic_statistics, *actor_statistics)

    network: ActorCritic

    def make(self) -> tuple[Any, nn.Module]:
        config = self.config
        self.actor_every = config.policy_delay
        distribution = Deterministic(self.agent_group.action, config.exploration_noise, self.device)
        actions = distribution.size
        shape = actions, actions, config.network, config.hidden, config.activation, config.trunk, config.bf16
        parts = make_actor_critic(self.agent_group.observation, *shape, squash=True)
        return distribution, ActorCritic(*parts)

    def update_at_once(self, batch: Transitions, rates: UpdateRates, *, critics: bool, actor: bool) -> Tensor:
        return self.compiled.update(batch, rates, critics, actor, next_noise=self.target_noise)

    def target_noise(self, rows: int) -> Tensor:
        """Returns the noise of the targets' actions, float32[rows, A]."""
        clip = self.config.target_noise_clip
        return self.noise(rows).mul_(self.config.target_noise).clamp_(-clip, clip)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``½ Σ mean((Q(s, a) - y)²)`` over the critics, ``y = r + discount · min Q'(s', a')``.

        Here ``a'`` is ``μ'(s')`` plus clipped noise, and is also clipped.
        """
        with torch.no_grad():
            noise = self.target_noise(len(batch.rewards))
            next_actions = (self.targets.actor(batch.next_observations) + noise).clamp(-1.0, 1.0)
            next_q = self.targets.critic(batch.next_observations, next_actions).amin(0)
            target = batch.rewards + batch.discounts * next_q
        values = self.network.critic(batch.inputs, batch.actions)
        loss = batch.mean((values - target).square()).sum() / 2
        return Losses({"critic": loss}, (loss, values.mean()))

    def actor_losses(self, batch: Transitions) -> Losses:
        """Returns ``-mean(Q₁(s, μ(s)))`` of the first critic."""
        actions = self.network.actor(batch.inputs)
        loss = -self.network.critic(batch.inputs, actions)[0].mean()
        return Losses({"actor": loss}, (loss,))
