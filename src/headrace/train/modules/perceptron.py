"""Perceptrons, one after the other layer."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.modules.layers import narrow, tanh_


class Layers(nn.Module):
    """A stack of linear layers with activations between them.

    Args:
        weights, biases: weights [H', H] and biases [H'] of each layer.
        activation: ``"relu"`` or ``"tanh"``, of all layers but the last.
        ending: the activation of the last layer; empty for none.
    """

    def __init__(self, weights: Iterable[Tensor], biases: Iterable[Tensor], activation: str, ending: str = ""):
        super().__init__()
        self.weights = nn.ParameterList(map(nn.Parameter, weights))
        self.biases = nn.ParameterList(map(nn.Parameter, biases))
        self.relu = activation == "relu"
        self._layers = tuple(zip(self.weights, self.biases, strict=True))
        names = [activation] * (len(self._layers) - 1) + [ending]
        self._relus = tuple(None if not name else name == "relu" for name in names)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the last layer's outputs, float32[B, H'], of inputs float32[B, H]."""
        for (weight, bias), relu in zip(self._layers, self._relus, strict=True):
            with narrow(min(weight.shape)):
                x = F.linear(x, weight, bias)
            if relu is not None:
                x = x.relu_() if relu else tanh_(x)
        return x


class Perceptron(Layers):
    """Layers initialised as torch's `nn.Linear`.

    Args:
        activation: ``"relu"`` or ``"tanh"``, of the hidden layers.
        squash: whether the outputs are bounded to [-1, 1], by a tanh.
    """

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, squash: bool = False):
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise((inputs, *hidden, outputs))]
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        super().__init__(weights, biases, activation, "tanh" if squash else "")
        self.squash = squash

    def forward(self, x: Tensor) -> Tensor:
        """Returns outputs float32[B, outputs] of inputs float32[B, inputs]."""
        with narrow(x.shape[0]):
            return super().forward(x)


class Critic(Perceptron):
    """A perceptron that returns the value of an action."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...], activation: str):
        super().__init__(inputs + actions, 1, hidden, activation)

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:  # type: ignore[override]
        """Maps inputs [B, D] and actions [B, A] to values [1, B]."""
        return super().forward(torch.cat((inputs, actions), 1)).t()
