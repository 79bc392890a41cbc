"""Several critics of equal shape, evaluated as one batched product.

An update of small critics is a hundred small operations, whose overhead takes longer than their products. The critics
are therefore one batch; the first layer's biases are a row of its weights, multiplied by a column of ones in the
inputs.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from headrace.train.modules.layers import is_exporting, narrow, tanh_


class TwinCritic(nn.Module):
    """K perceptrons with one output each: weights [K, inputs, outputs], biases [K, 1, outputs].

    The first layer's biases are the last row of its weights. Layers are initialised as torch's `nn.Linear`.

    Args:
        inputs: columns, D.
        activation: ``"relu"`` or ``"tanh"``, of the hidden layers.
        critics: number of critics, K.
    """

    def __init__(self, inputs: int, hidden: tuple[int, ...], activation: str, critics: int = 2):
        super().__init__()
        self.relu, self.critics = activation == "relu", critics
        each = [[nn.Linear(a, b) for a, b in itertools.pairwise((inputs, *hidden, 1))] for _ in range(critics)]
        first, *between, last = [_stacked(layers) for layers in zip(*each, strict=True)]
        self.first = nn.Parameter(torch.cat(first, 1))  # [K, D + 1, H]
        self.weights = nn.ParameterList([nn.Parameter(weight) for weight, _ in between])
        self.biases = nn.ParameterList([nn.Parameter(bias) for _, bias in between])
        self.last = nn.Parameter(last[0].mT.contiguous())  # [K, 1, H]
        self.last_bias = nn.Parameter(last[1].squeeze(1))
        self._layers = tuple(zip(self.weights, self.biases, strict=True))
        self._ones = torch.ones(0, 1)

    def joined(self, *parts: Tensor) -> Tensor:
        """Returns parts of the inputs and a column of ones concatenated, float32[B, D + 1]."""
        if is_exporting():
            return torch.cat((*parts, parts[0].new_ones(parts[0].shape[0], 1)), 1)
        rows, device = len(parts[0]), parts[0].device
        if len(self._ones) != rows or self._ones.device != device:
            self._ones = torch.ones(rows, 1, device=device)
        return torch.cat((*parts, self._ones), 1)

    def forward(self, *parts: Tensor) -> Tensor:
        """Maps parts of the inputs, together D columns, to values [K, B]."""
        act, x = torch.relu_ if self.relu else tanh_, self.joined(*parts)
        with narrow(x.shape[1]):
            h = act(torch.bmm(x.expand(self.critics, *x.shape), self.first))  # [K, B, H]
        for weight, bias in self._layers:
            h = act(torch.bmm(h, weight).add_(bias))  # baddbmm needs one more pass over the memory
        with narrow(1):
            values = torch.bmm(self.last, h.mT)
        return values.squeeze(1).add_(self.last_bias)


def _stacked(layers: tuple[nn.Linear, ...]) -> tuple[Tensor, Tensor]:
    """Returns a layer of each critic: weights [K, inputs, outputs] and biases [K, 1, outputs]."""
    weight = torch.stack([layer.weight.detach().t() for layer in layers])
    return weight.contiguous(), torch.stack([layer.bias.detach() for layer in layers]).unsqueeze(1)
