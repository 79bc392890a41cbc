"""Perceptrons whose inputs and hidden layers are normalised by the statistics of a batch.

Networks have two methods. ``forward``, for acting and for critics' values of new actions, uses running statistics, so
that a row's output does not depend on other rows. ``of_batch``, for learning, uses the batch's statistics, and updates
the running ones.

Running statistics are parameters without gradients. They are therefore in the vector of a network's parameters
(`headrace.train.algorithms.optimiser.flatten`), and are published, copied and saved with it.

Sources: Ioffe & Szegedy 2015 (arXiv:1502.03167); Ioffe 2017 (arXiv:1702.03275) for batches after ``warm_up``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

MOST_SCALE, MOST_SHIFT = 3.0, 5.0
"""bounds of the corrections, r_max and d_max"""


@runtime_checkable
class HasRunningStatistics(Protocol):
    """A module with statistics that batches update, apart from gradients."""

    def running(self) -> Iterable[Tensor]:
        """Returns the statistics that batches update, which processes that train together share."""
        ...


@dataclass(frozen=True)
class Renorm:
    """The settings of a `BatchRenorm`.

    Attributes:
        momentum: weight of the previous running statistics at each batch.
        warm_up: number of batches that are normalised by their own statistics alone; outputs of later batches are
            corrected towards those of the running statistics.
        epsilon: what is added to variances.
    """

    momentum: float = 0.99
    warm_up: int = 100_000
    epsilon: float = 1e-3


class BatchRenorm(nn.Module):
    """A layer that standardises the columns of a batch [B, D], and scales and shifts them by learnt parameters.

    Attributes:
        mean, variance: running statistics, float32[D].
        batches: number of batches that updated them, float32[].
    """

    def __init__(self, columns: int, how: Renorm):
        super().__init__()
        self.how = how
        self.weight, self.bias = nn.Parameter(torch.ones(columns)), nn.Parameter(torch.zeros(columns))
        self.mean = nn.Parameter(torch.zeros(columns), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(columns), requires_grad=False)
        self.batches = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns [B, D], by running statistics."""
        scale = self.weight * (self.variance + self.how.epsilon).rsqrt()
        return torch.addcmul(self.bias - self.mean * scale, x, scale)

    def of_batch(self, x: Tensor) -> Tensor:
        """Returns [B, D], by this batch's statistics, which update the running ones."""
        # the mean and 1 / the deviation, which are returned as well, are constants for autograd
        epsilon = self.how.epsilon
        standardised, mean, inverse = torch.native_batch_norm(x, None, None, None, None, True, 0.0, epsilon)
        with torch.no_grad():
            scale, shift = self._corrections(mean, inverse)
            self.mean.lerp_(mean, 1 - self.how.momentum)
            self.variance.lerp_(inverse.pow(-2) - epsilon, 1 - self.how.momentum)
            self.batches += 1
        return torch.addcmul(self.bias + self.weight * shift, standardised, self.weight * scale)

    def running(self) -> Iterable[Tensor]:
        """Returns the statistics that batches update, which processes that train together share."""
        return self.mean.data, self.variance.data

    def _corrections(self, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
        """Returns r and d, float32[D], which correct batch statistics towards running ones, within bounds."""
        running = (self.variance + self.how.epsilon).rsqrt()
        warm = self.batches >= self.how.warm_up
        scale = (running / inverse).clamp(1 / MOST_SCALE, MOST_SCALE)
        shift = ((mean - self.mean) * running).clamp(-MOST_SHIFT, MOST_SHIFT)
        return torch.where(warm, scale, 1.0), torch.where(warm, shift, 0.0)


class NormalisedPerceptron(nn.Module):
    """A perceptron with a `BatchRenorm` before its first layer and after each activation; layers are `nn.Linear`.

    Args:
        activation: ``"relu"`` or ``"tanh"``, of the hidden layers.
    """

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, how: Renorm):
        super().__init__()
        self._activation = torch.relu if activation == "relu" else torch.tanh
        widths = (inputs, *hidden)
        self.norms = nn.ModuleList(BatchRenorm(width, how) for width in widths)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise((*widths, outputs)))

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by running statistics."""
        first, *others = zip(self.norms, self.layers, strict=True)
        x = first[1](first[0](x))
        for norm, layer in others:
            x = layer(norm(self._activation(x)))
        return x

    def of_batch(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by this batch's statistics, which update the running ones."""
        first, *others = zip(self.norms, self.layers, strict=True)
        x = first[1](first[0].of_batch(x))  # type: ignore[operator]
        for norm, layer in others:
            x = layer(norm.of_batch(self._activation(x)))  # type: ignore[operator]
        return x


class NormalisedCritics(nn.Module):
    """Two critics of inputs and actions, each a `NormalisedPerceptron`."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], activation: str, how: Renorm):
        super().__init__()
        self.critics = nn.ModuleList(NormalisedPerceptron(inputs, 1, hidden, activation, how) for _ in range(2))

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [2, B], by running statistics."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic(x).squeeze(1) for critic in self.critics])

    def of_batch(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [2, B], by the statistics of this batch."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic.of_batch(x).squeeze(1) for critic in self.critics])  # type: ignore[operator]


def running_statistics(module: nn.Module) -> Iterable[Tensor]:
    for each in module.modules():
        if isinstance(each, HasRunningStatistics):
            yield from each.running()
