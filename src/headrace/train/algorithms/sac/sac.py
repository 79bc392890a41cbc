"""Soft actor-critic: a stochastic actor that maximises the return and, weighted by a temperature, its entropy.

The temperature is learnt, so that the mean entropy is the target entropy; the lower of two critics' values is used.

Sources: Haarnoja et al. 2018 (arXiv:1812.05905, automatic temperature; arXiv:1801.01290); Pardo et al. 2018
(arXiv:1712.00378) for time limits. Gradient steps of the temperature act on its logarithm, as in the authors' own code.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.compiled_updates import CompiledActorCritic
from headrace.train.algorithms.off_policy import Losses, OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac import settings
from headrace.train.modules.actor_critic import ActorCritic, make_actor_critic
from headrace.train.modules.exploration import SquashedGaussian
from headrace.train.storage.transitions import Transitions


class Temperature(nn.Module):
    """The weight of the entropy; its parameter is the logarithm."""

    def __init__(self, initial: float):
        super().__init__()
        self.log = nn.Parameter(torch.tensor([math.log(initial)]))


class SoftActorCritic(ActorCritic):
    """An actor that returns the parameters of a `SquashedGaussian`, critics, and the temperature."""

    def __init__(self, actor: nn.Module, critic: nn.Module, initial_temperature: float, trunk: nn.Module | None = None):
        super().__init__(actor, critic, trunk)
        self.temperature = Temperature(initial_temperature)


class SoftOffPolicy(OffPolicy):
    """The base of algorithms whose actor maximises the return and its entropy: the actor's and the temperature's loss.

    Attributes:
        network: a `SoftActorCritic`.
        target_entropy: the entropy that the temperature keeps the actor at, in nats.
    """

    critic_statistics = ("critic_loss", "q_mean")
    actor_statistics = ("actor_loss", "entropy", "temperature")
    statistics = (*critic_statistics, *actor_statistics)

    network: SoftActorCritic
    distribution: SquashedGaussian

    def make_distribution(self) -> SquashedGaussian:
        """Returns the distribution of actions, and sets the target entropy."""
        distribution = SquashedGaussian(self.agent_group.action, self.device)
        chosen = self.config.target_entropy
        self.target_entropy = -float(distribution.noise_size) if chosen is None else chosen
        return distribution

    def actor_params(self, batch: Transitions) -> Tensor:
        """Returns the actor's outputs for the actor's loss, float32[B, 2A]."""
        return self.network.actor(batch.inputs)

    def actor_losses(self, batch: Transitions) -> Losses:
        """Returns ``mean(α log π(a|s) - min Q(s, a))``; for α, ``-log α · mean(log π(a|s) + target entropy)``."""
        actions, log_prob = self.sample(self.actor_params(batch))
        log_alpha = self.network.temperature.log
        alpha, entropy = log_alpha.exp().detach(), -log_prob.detach().mean()
        loss = (alpha * log_prob - self.network.critic(batch.inputs, actions).amin(0)).mean()
        temperature = (log_alpha * (entropy - self.target_entropy)).sum()
        return Losses({"actor": loss, "temperature": temperature}, (loss, entropy, alpha[0]))

    def sample(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """Returns actions float32[B, A] and their log-probabilities float32[B]."""
        return self.distribution.rsample(params, self.noise(len(params)))


class SAC(SoftOffPolicy):
    """A stochastic policy π, its critics Q, their targets Q', and the temperature α.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network does not fit.
    """

    settings = settings.SAC
    compiled_form = CompiledActorCritic
    target_parts = ("critic",)

    def make(self) -> tuple[Any, nn.Module]:
        config, distribution = self.config, self.make_distribution()
        actions = distribution.noise_size
        shape = 2 * actions, actions, config.network, config.hidden, config.activation, config.trunk, config.bf16
        actor, critic, trunk = make_actor_critic(self.agent_group.observation, *shape)
        return distribution, SoftActorCritic(actor, critic, config.initial_temperature, trunk)

    def update_at_once(self, batch: Transitions, rates: UpdateRates, *, critics: bool, actor: bool) -> Tensor:
        noise = {"next_noise": self.noise, "noise": self.noise}
        return self.compiled.update(batch, rates, critics, actor, **noise, target_entropy=self.target_entropy)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``½ Σ mean((Q(s, a) - y)²)`` over the critics.

        Here ``y = r + discount · (min Q'(s', a') - α log π(a'|s'))``.
        """
        with torch.no_grad():
            next_actions, next_log_prob = self.sample(self.network.actor(batch.next_observations))
            next_q = self.targets.critic(batch.next_observations, next_actions).amin(0)
            alpha = self.network.temperature.log.exp()
            target = batch.rewards + batch.discounts * (next_q - alpha * next_log_prob)
        values = self.network.critic(batch.inputs, batch.actions)
        loss = batch.mean((values - target).square()).sum() / 2
        return Losses({"critic": loss}, (loss, values.mean()))
