"""Variants of SAC that `tried.py` compares with what Headrace comes with, as one writes them in a file of one's own.

headrace train HalfCheetah-v5 --algo benchmarks/tried_algorithms.py:TQC
headrace train HalfCheetah-v5 --algo sac --network benchmarks/tried_algorithms.py:layer_norm
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from headrace.train.settings.algorithms import SACConfig
from torch import Tensor, nn

from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.sac.sac import SAC, SoftActorCritic
from headrace.train.modules.network import input_size
from headrace.train.modules.perceptron import Perceptron
from headrace.train.settings.fields import setting
from headrace.train.storage.transitions import Transitions


class Critics(nn.Module):
    """Critics of inputs and actions, each of which answers ``outputs`` numbers; with layer normalisations if asked."""

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...], count: int = 2, norm: bool = False):
        super().__init__()
        self.each = nn.ModuleList(self._one((inputs, *hidden), outputs, norm) for _ in range(count))

    def _one(self, widths: tuple[int, ...], outputs: int, norm: bool) -> nn.Sequential:
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), *([nn.LayerNorm(after)] if norm else []), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    def answers(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Returns [K, B, outputs]."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic(x) for critic in self.each])

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Returns the mean of what each answers, [K, B]."""
        return self.answers(inputs, actions).mean(2)


class WithCritics(SAC):
    """SAC with other critics."""

    def _make_critics(self, columns: int) -> Critics:
        raise NotImplementedError

    def make(self) -> tuple[Any, nn.Module]:
        config, inputs = self.config, input_size(self.agent_group.observation)
        distribution = self.make_distribution()
        actions = distribution.noise_size
        actor = Perceptron(inputs, 2 * actions, config.hidden, config.activation)
        return distribution, SoftActorCritic(actor, self._make_critics(inputs + actions), config.initial_temperature)


class LayerNorm(WithCritics):
    """SAC whose critics have a layer normalisation before each activation (Ba et al. 2016, arXiv:1607.06450)."""

    def _make_critics(self, columns: int) -> Critics:
        return Critics(columns, 1, self.config.hidden, norm=True)


@dataclass(frozen=True)
class TQCConfig(SACConfig):
    """Settings of TQC."""

    critics: int = setting(2, "Critics.", low=1)
    quantiles: int = setting(25, "Quantiles that each answers.", low=1)
    dropped: int = setting(2, "Of the largest quantiles of the target, how many of each critic are left out.", low=0)


class TQC(WithCritics):
    """Truncated quantile critics: of the pooled quantiles of all targets, the largest are left out.

    Source: Kuznetsov et al. 2020 (arXiv:2005.04269), with fewer critics.
    """

    settings = TQCConfig
    config: TQCConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def _make_critics(self, columns: int) -> Critics:
        return Critics(columns, self.config.quantiles, self.config.hidden, self.config.critics)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Quantile Huber losses of all critics' quantiles towards ``r + discount · (kept quantiles - α log π)``."""
        config = self.config
        with torch.no_grad():
            next_actions, log_prob = self.sample(self.network.actor(batch.next_observations))
            pooled = (
                torch.cat(tuple(self.targets.critic.answers(batch.next_observations, next_actions)), 1).sort(1).values
            )
            kept = pooled[:, : pooled.shape[1] - config.dropped * config.critics]
            next_q = kept - (self.network.temperature.log.exp() * log_prob).unsqueeze(1)
            target = batch.rewards.unsqueeze(1) + batch.discounts.unsqueeze(1) * next_q
        answers = self.network.critic.answers(batch.inputs, batch.actions)
        levels = (torch.arange(config.quantiles, device=answers.device) + 0.5) / config.quantiles
        error = target[None, :, None, :] - answers.unsqueeze(3)  # [K, B, quantiles, kept]
        huber = torch.where(error.abs() > 1, error.abs() - 0.5, error.square() / 2)
        loss = batch.mean(((levels[:, None] - (error.detach() < 0).float()).abs() * huber).mean((2, 3))).sum()
        return Losses({"critic": loss}, (loss, answers.mean()))

    def actor_losses(self, batch: Transitions) -> Losses:
        """As of SAC, with the mean of all quantiles in place of the lower critic."""
        actions, log_prob = self.sample(self.network.actor(batch.inputs))
        log_alpha = self.network.temperature.log
        alpha, entropy = log_alpha.exp().detach(), -log_prob.detach().mean()
        loss = (alpha * log_prob - self.network.critic(batch.inputs, actions).mean(0)).mean()
        temperature = (log_alpha * (entropy - self.target_entropy)).sum()
        return Losses({"actor": loss, "temperature": temperature}, (loss, entropy, alpha[0]))


class Muon(SAC):
    """SAC whose matrices learn by orthogonalised momentum, and all else by Adam.

    A step has the root mean square that Adam's has early on, 0.2, in place of a length of its own.

    Sources: Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon/); Liu et al. 2025 (arXiv:2502.16982), 2.2.
    """

    def _build(self) -> None:
        super()._build()
        for name, optimiser in self.adam.items():
            if name != "temperature":
                optimiser.__class__ = FlatMuon
                found = [leaf for leaf in self._leaves[name] if leaf.dim() > 1 and min(leaf.shape[-2:]) > 1]
                optimiser.matrices = found  # type: ignore


class FlatMuon(FlatAdam):
    """A `FlatAdam` that replaces the gradients of ``matrices`` before it is applied."""

    MOMENTUM, SIZE = 0.95, 0.2
    matrices: list[Tensor]

    def _apply(self, learning_rate: float | Tensor) -> None:
        before = [matrix.clone() for matrix in self.matrices]
        if not hasattr(self, "momenta"):
            self.momenta = [torch.zeros_like(matrix) for matrix in self.matrices]
        gradients = [matrix.grad.clone() for matrix in self.matrices if matrix.grad is not None]
        super()._apply(learning_rate)
        for matrix, old, momentum, gradient in zip(self.matrices, before, self.momenta, gradients, strict=True):
            momentum.mul_(self.MOMENTUM).add_(gradient)
            step = orthogonal(gradient + self.MOMENTUM * momentum)
            scale = self.SIZE * max(matrix.shape[-2:]) ** 0.5
            matrix.copy_(old - learning_rate * scale * step)


def orthogonal(x: Tensor) -> Tensor:
    """The nearest matrices with orthogonal rows or columns, of [..., M, N], by five Newton-Schulz steps."""
    wide = x.shape[-2] > x.shape[-1]
    x = x.mT if wide else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x.mT if wide else x
