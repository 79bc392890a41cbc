"""FlashSAC: soft actor-critic for many environments and few, large updates.

Many environments fill a replay faster than a learner can use it. There are few updates, each from a large batch, of
deep and wide networks. These stay trainable because weights, features and gradients are bounded
(`headrace.train.modules.residual_network`). Critics return distributions, and targets follow slowly. For exploration,
noise is kept for a number of steps drawn from a zeta distribution.

Sources: Kim et al. 2026 (arXiv:2604.04539); Haarnoja et al. 2018 (arXiv:1812.05905) for the losses; Bellemare et al.
2017 (arXiv:1707.06887) for distributions of values. Unlike the authors', the learning rate is constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.algorithms.crossq import CrossQ
from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac import SoftActorCritic
from headrace.train.config.algorithms.flash_sac import FlashSACConfig, FlashSACDeclaration
from headrace.train.modules.batch_renorm import Renorm
from headrace.train.modules.categorical_critics import CategoricalCritics
from headrace.train.modules.exploration import SquashedGaussian
from headrace.train.modules.network import input_size
from headrace.train.modules.normalisation import ReturnScaler
from headrace.train.modules.repeated_noise import RepeatedNoise
from headrace.train.modules.residual_network import ResidualActor, ResidualNetwork, normalise_units
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.storage.transitions import Transitions

NEVER = 2**62  # batches
DEVIATION = 0.15
"""standard deviation of a normal distribution with the target entropy, in units of half the action range"""


class FlashSAC(FlashSACDeclaration, CrossQ):
    """A stochastic policy π, critics that return distributions of Q, their targets, and the temperature α.

    Values, rewards and α are in units in which returns are within ``value_bound``, see `ReturnScaler`.

    Attributes:
        network: a `SoftActorCritic` of residual networks.
        target_entropy: the entropy that the temperature keeps the actor at, in nats.

    Raises:
        OptionError: the actions are not continuous and bounded, or blocks are not of one width.
    """

    config: FlashSACConfig  # pyright: ignore[reportIncompatibleVariableOverride]  # a subclass's settings; the attribute is never assigned
    target_parts = ("critic",)

    def _make(self) -> tuple[Any, nn.Module]:
        config, inputs = self.config, input_size(self.agent_group.observation)
        self.actor_every, self.betas = config.policy_delay, (config.adam_beta, 0.999)
        self._repeated = RepeatedNoise(config.noise_repeats)
        distribution = SquashedGaussian(self.agent_group.action, self.device)
        actions = distribution.noise_size
        normal = actions / 2 * math.log(2 * math.pi * math.e * DEVIATION**2)
        self.target_entropy = normal if config.target_entropy is None else config.target_entropy
        how = config.activation, Renorm(config.batch_momentum, warm_up=NEVER, epsilon=1e-5)
        actor = ResidualActor(inputs, 2 * actions, *_blocks("hidden", config.hidden), *how)
        shape = _blocks("critic_hidden", config.critic_hidden or config.hidden)
        critics = [ResidualNetwork(inputs + actions, config.atoms, *shape, *how) for _ in range(2)]
        critic = CategoricalCritics(critics, config.atoms, config.value_bound)
        network = SoftActorCritic(actor, critic, config.initial_temperature)
        normalise_units(network)
        return distribution, network

    def _make_reward_scaler(self, columns: int) -> ReturnScaler:
        return ReturnScaler(columns, self.config.gamma, self.config.value_bound, self.device)

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        if self.distribution.widely:
            return super().draw(noise, generator)
        return self._repeated.draw(noise, generator)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``-Σ mean(Σ_z m(z) log p(z|s, a))`` over the critics.

        Here m is the projected distribution of ``r + discount · (z - α log π)``, where z is distributed as for the
        target with the lower mean for (s', a'). (s, a) and (s', a') are in one batch, for critics and targets alike.
        """
        critic: CategoricalCritics = self.network.critic  # type: ignore[assignment]
        rows = len(batch.rewards)
        with torch.no_grad():
            next_actions, next_log_prob = self._sample(self.network.actor(batch.next_observations))
            both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, next_actions))
            next_q = self.targets.critic.of_batch(*both)[:, rows:]
            alpha = self.network.temperature.log.exp()
            shift = batch.rewards - batch.discounts * alpha * next_log_prob
            target = critic.projected(critic.lower(next_q), shift, batch.discounts)
        logits = critic.of_batch(*both)[:, :rows]
        loss = -batch.mean((target * logits.log_softmax(2)).sum(2)).sum()
        return Losses({"critic": loss}, (loss, self.in_rewards(critic.expected(logits.detach()).mean())))

    def actor_losses(self, batch: Transitions) -> Losses:
        """Returns ``mean(α log π(a|s) - min Q(s, a))``; for α, ``-log α · mean(log π(a|s) + target entropy)``.

        States and following states are in one batch for the actor; the critics use running statistics.
        """
        params = self.network.actor.of_batch(torch.cat((batch.inputs, batch.next_observations)))[: len(batch.rewards)]
        actions, log_prob = self._sample(params)
        log_alpha = self.network.temperature.log
        alpha, entropy = log_alpha.exp().detach(), -log_prob.detach().mean()
        loss = (alpha * log_prob - self.network.critic(batch.inputs, actions).amin(0)).mean()
        temperature = (log_alpha * (entropy - self.target_entropy)).sum()
        return Losses({"actor": loss, "temperature": temperature}, (loss, entropy, alpha[0]))

    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Updates the critics, as `OffPolicy.improve_critics`, and normalises their parameters afterwards."""
        measured = super().improve_critics(batch, rates)
        normalise_units(self.network.critic)
        return measured

    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Updates the actor, as `OffPolicy.improve_actor`, and normalises its parameters afterwards."""
        measured = super().improve_actor(batch, rates)
        normalise_units(self.network.actor)
        return measured

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        return super().state() | checkpoints.prefixed(self.prefix("noise"), self._repeated.state())

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        super().load_state(saved)
        self._repeated.load(checkpoints.group(self.prefix("noise"), saved))


def _blocks(name: str, widths: tuple[int, ...]) -> tuple[int, int]:
    """Returns the width and the number of blocks; raises `OptionError` unless all have one width."""
    if len(set(widths)) != 1:
        raise OptionError(f"{name}={widths}: flashsac's blocks are all of one width, as in 128 128")
    return widths[0], len(widths)
