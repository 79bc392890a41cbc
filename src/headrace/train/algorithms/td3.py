"""Twin delayed DDPG: two critics of which the lower counts, smoothed target actions, an actor that learns more seldom.

Source: Fujimoto et al. 2018 (arXiv:1802.09477); Pardo et al. 2018 (arXiv:1712.00378) for time limits.
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
from headrace.train.modules.twin_critic import TwinCritic
from headrace.train.storage.device_replay import Transitions


class TD3(OffPolicy):
    """A deterministic policy μ, its twin critics Q, and their targets μ' and Q'.

    Attributes:
        network: an `ActorCritic`.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network is to be another than an MLP.
    """

    critic_statistics = ("critic_loss", "q_mean")
    actor_statistics = ("actor_loss",)
    statistics = (*critic_statistics, *actor_statistics)

    network: ActorCritic

    def _make(self) -> tuple[Any, nn.Module]:
        config, agent_group = self.config, self.agent_group
        self.actor_every = config.policy_delay
        distribution = Deterministic(agent_group.action, config.exploration_noise, self.device)
        inputs = input_size(agent_group.observation)
        actions, shape = distribution.size, (config.hidden, config.activation)
        return distribution, ActorCritic(
            Perceptron(inputs, actions, *shape, squash=True), TwinCritic(inputs + actions, *shape)
        )

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``½ Σ mean((Q(s, a) - y)²)`` over both, ``y = r + discount · min Q'(s', a')``.

        Here ``a'`` is ``μ'(s')`` with clipped noise, clipped itself.
        """
        config, critic, target = self.config, self.network.critic, self.targets.critic
        noise = self.noise(len(batch.rewards)).mul_(config.target_noise)
        noise.clamp_(-config.target_noise_clip, config.target_noise_clip)
        actions = noise.add_(self.targets.actor(batch.following)).clamp_(-1.0, 1.0)
        after = target(target.joined(batch.following, actions)).amin(0)
        wanted = torch.addcmul(batch.rewards, batch.discounts, after)
        loss, mean = critic.fit_into_gradients(critic.joined(batch.inputs, batch.actions), wanted, batch.weights)
        self._optimisers["critic"].step_unclipped(rates.critic_learning_rate)
        return torch.stack((loss, mean))

    @torch.inference_mode()
    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``-mean(Q₁(s, μ(s)))`` of the first critic."""
        actor, critic = self.network.actor, self.network.critic
        saved = actor.forward_saving(batch.inputs)
        values, critic_saved = critic.forward_saving(critic.joined(batch.inputs, saved[-1]), towers=1)
        d_values = torch.full_like(values, -1 / len(batch.inputs))
        actor.backward_into_gradients(saved, critic.input_gradient(critic_saved, d_values, batch.inputs.shape[1]))
        self._optimisers["actor"].step_unclipped(rates.learning_rate)
        return values.mean(1).neg_()
