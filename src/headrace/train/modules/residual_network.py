"""Residual networks whose weights, features and gradients keep their norms during training.

Each block widens its input fourfold and narrows it again, with batch normalisation after both. The last block's output
is scaled to a root mean square of 1 in each row. After each update every unit's weights are normalised to length 1
(`normalise_units`), and scale and shift of a normalisation of D columns, together, to length √D.

Source: Kim et al. 2026 (arXiv:2604.04539). A `BatchRenorm` that has not warmed up is a batch normalisation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headrace.train.modules.batch_renorm import BatchRenorm, Renorm

WIDER = 4
"""the factor by which a block widens its input"""
LEAST = 1e-8
LOG_STD = (-10.0, 2.0)
"""range of the log standard deviations of a `ResidualActor`"""


class ResidualBlock(nn.Module):
    """A module that computes ``x + act(norm(narrow(act(norm(widen(x))))))`` of x [B, D]."""

    def __init__(self, width: int, activation: str, how: Renorm):
        super().__init__()
        self._activation = torch.relu if activation == "relu" else torch.tanh
        self.widen, self.narrow = _unit(width, WIDER * width), _unit(WIDER * width, width)
        self.inner, self.outer = BatchRenorm(WIDER * width, how), BatchRenorm(width, how)

    def forward(self, x: Tensor) -> Tensor:
        """Returns [B, D], by running statistics."""
        inside = self._activation(self.inner(self.widen(x)))
        return x + self._activation(self.outer(self.narrow(inside)))

    def of_batch(self, x: Tensor) -> Tensor:
        """Returns [B, D], by this batch's statistics, which update the running ones."""
        inside = self._activation(self.inner.of_batch(self.widen(x)))
        return x + self._activation(self.outer.of_batch(self.narrow(inside)))


class ResidualNetwork(nn.Module):
    """A normalisation of inputs, `ResidualBlock`s, and a linear layer.

    Args:
        inputs, outputs: columns.
        width: columns of the blocks.
        blocks: number of blocks.
        activation: ``"relu"`` or ``"tanh"``.
        how: settings of the normalisation.
    """

    def __init__(self, inputs: int, outputs: int, width: int, blocks: int, activation: str, how: Renorm):
        super().__init__()
        self.norm, self.first = BatchRenorm(inputs, how), _unit(inputs, width)
        self.blocks = nn.ModuleList(ResidualBlock(width, activation, how) for _ in range(blocks))
        self.size = nn.RMSNorm(width, eps=1e-6)
        self.last = nn.Linear(width, outputs)
        nn.init.orthogonal_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by running statistics."""
        x = self.first(self.norm(x))
        for block in self.blocks:
            x = block(x)
        return self.last(self.size(x))

    def of_batch(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by this batch's statistics, which update the running ones."""
        x = self.first(self.norm.of_batch(x))
        for block in self.blocks:
            x = block.of_batch(x)  # type: ignore[operator]
        return self.last(self.size(x))


class ResidualActor(ResidualNetwork):
    """A `ResidualNetwork` that returns parameters of a `SquashedGaussian`, log standard deviations within `LOG_STD`."""

    def forward(self, x: Tensor) -> Tensor:
        return _bounded(super().forward(x))

    def of_batch(self, x: Tensor) -> Tensor:
        return _bounded(super().of_batch(x))


def _unit(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.orthogonal_(layer.weight)
    return layer


def _bounded(params: Tensor) -> Tensor:
    mean, raw = params.chunk(2, -1)
    low, high = LOG_STD
    return torch.cat((mean, low + (high - low) / 2 * (1 + raw.tanh())), -1)


@torch.no_grad()
def normalise_units(module: nn.Module) -> None:
    """Scales parameters of a module's `ResidualNetwork`\\ s to fixed lengths, in place, but for the last biases."""
    for each in module.modules():
        if isinstance(each, nn.Linear):
            each.weight.div_(each.weight.norm(dim=1, keepdim=True).clamp(min=LEAST))
        elif isinstance(each, BatchRenorm):
            length = torch.hypot(each.weight.norm(), each.bias.norm()).clamp(min=LEAST)
            scale = math.sqrt(each.weight.numel()) / length
            each.weight.mul_(scale)
            each.bias.mul_(scale)
        elif isinstance(each, nn.RMSNorm):
            each.weight.mul_(math.sqrt(each.weight.numel()) / each.weight.norm().clamp(min=LEAST))
