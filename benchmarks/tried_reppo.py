"""Relative entropy pathwise policy optimisation, which `tried.py` compares with PPO.

It learns from rollouts as PPO does, but by the gradient of a critic of actions, within a bound on the divergence from
the policy that acted. Source: Voelcker et al. 2025 (arXiv:2507.11019), with squared errors of standardised values in
place of a categorical critic, and without its prediction of features.

headrace train HalfCheetah-v5 --algo benchmarks/tried_reppo.py:REPPO --preset fast
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
import torch
from headrace.train.settings.rollout import RolloutConfig
from torch import Tensor, nn
from torch.func import functional_call

from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.ppo.presets import PPO
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.distributions import DiagonalGaussian
from headrace.train.modules.network import input_size
from headrace.train.settings.fields import setting
from headrace.train.storage.samples import Samples

MULTIPLIER_RATE = 20  # of the multipliers' logarithms, in units of the learning rate
PRESETS = {
    preset: {key: {name: each[name] for name in each if "clip" not in name} for key, each in table.items()}
    for preset, table in PPO.items()
}


@dataclass(frozen=True)
class REPPOConfig(RolloutConfig):
    """Settings of REPPO; its presets are PPO's, but for what belongs to its loss."""

    presets = PRESETS

    minibatch_size: int = setting(256, "Samples in one gradient step.", low=1)
    epochs: int = setting(4, "Passes over a rollout.", low=1)
    kl_bound: float = setting(0.05, "Divergence from the policy that acted that a rollout may lead to.", above=0)
    entropy_target: float = setting(0.0, "Entropy of the policy, of each dimension of its actions.")


class SquashedNormal(DiagonalGaussian):
    """Normals before a tanh, whose means and log standard deviations a network computes."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.outputs = self.size

    def to_env(self, actions: Tensor) -> Tensor:
        return super().to_env(torch.tanh(actions))


def perceptron(widths: tuple[int, ...], outputs: int, scale: float) -> nn.Sequential:
    """Returns layers with normalised units; the weights of the last are multiplied by ``scale``."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.SiLU()]
    last = nn.Linear(widths[-1], outputs)
    with torch.no_grad():
        last.weight.mul_(scale)
        last.bias.zero_()
    return nn.Sequential(*layers, last)


class Network(nn.Module):
    """An actor, a critic of actions, and the logarithms of two multipliers, of the entropy and of the divergence."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...], log_std: float):
        super().__init__()
        self.actor = perceptron((inputs, *hidden), 2 * actions, 0.01)
        self.critic = perceptron((inputs + actions, *hidden), 1, 0.1)
        self.entropy = nn.Parameter(torch.tensor([math.log(0.01) / MULTIPLIER_RATE]))
        self.divergence = nn.Parameter(torch.zeros(1))
        self.log_std, self.actions = log_std, actions

    def params(self, x: Tensor) -> Tensor:
        """Returns means and log standard deviations, [B, 2A]."""
        mean, log_std = self.actor(x).chunk(2, -1)
        return torch.cat((mean, (self.log_std + log_std).clamp(-4, 0.5)), -1)

    def sample(self, params: Tensor) -> Tensor:
        """Returns actions before the tanh, [B, A], with their gradient."""
        mean, log_std = params.chunk(2, -1)
        return mean + log_std.exp() * torch.randn_like(mean)

    def q(self, x: Tensor, actions: Tensor, frozen: bool = False) -> Tensor:
        """Returns values [B] of actions before the tanh; if ``frozen``, without a gradient for the critic."""
        both = torch.cat((x, torch.tanh(actions)), -1)
        if frozen:
            weights = {name: leaf.detach() for name, leaf in self.critic.named_parameters()}
            return functional_call(self.critic, weights, (both,)).squeeze(-1)
        return self.critic(both).squeeze(-1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns parameters [B, 2A], and values [B] of an action that is drawn."""
        params = self.params(x)
        return params, self.q(x, self.sample(params))


class REPPO(OnPolicy):
    """Fits Q to λ-returns; its actor ascends ``mean(Q) + α·H - β·KL``, where α and β keep H and KL near their aims."""

    settings = REPPOConfig
    config: REPPOConfig
    keeps_params = True
    statistics = ("critic_loss", "q_mean", "entropy", "approx_kl", "alpha", "beta", "gradient_norm")

    def _build(self) -> None:
        super()._build()
        config, space = self.config, cast(gym.spaces.Box, self.agent_group.action)
        self.distribution = SquashedNormal(space.low, space.high, space.dtype, self.device)
        inputs, actions = input_size(self.agent_group.observation), self.distribution.noise_size
        self.network = Network(inputs, actions, config.hidden, config.log_std_init).to(self.device)
        self.optimiser = FlatAdam(self.network, epsilon=config.adam_epsilon)
        self.actor_parameters = self.optimiser.parameters

    def loss(self, batch: Samples, rates: Rates) -> tuple[Tensor, Tensor]:
        """Returns the loss of critic, actor and multipliers together."""
        network, config, x = self.network, self.config, batch.inputs
        critic_loss = batch.mean((network.q(x, batch.actions.flatten(1)) - batch.returns).square()) / 2
        params = network.params(x)
        drawn = network.sample(params)
        log_slope = 2 * (math.log(2) - drawn - nn.functional.softplus(-2 * drawn))  # log(1 - tanh²)
        entropy = -batch.mean(self.distribution.evaluate(params, drawn)[0] - log_slope.sum(-1))
        q = batch.mean(network.q(x, drawn, frozen=True))
        log_ratio = self.distribution.evaluate(params, batch.actions)[0] - batch.log_probs
        divergence = batch.mean(log_ratio.exp() - 1 - log_ratio)
        log_alpha, log_beta = MULTIPLIER_RATE * network.entropy, MULTIPLIER_RATE * network.divergence
        alpha, beta = log_alpha.exp().detach(), log_beta.exp().detach()
        actor_loss = beta * divergence - alpha * entropy - q
        spare = entropy.detach() - config.entropy_target * network.actions
        multipliers = log_alpha * spare + log_beta * (config.kl_bound - divergence.detach()).clamp(-1, 1)
        loss = critic_loss + (actor_loss + multipliers).sum()
        return loss, torch.stack((critic_loss, q, entropy, divergence, alpha[0], beta[0]))
