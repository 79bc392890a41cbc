"""A perceptron with hand-written backward passes, to its parameters or to its input.

An actor learns through its critic's input and needs none of the critic's other gradients; written out by hand, each
pass computes only the gradients that are needed, and builds no graph of small nodes.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.modules.layers import gradient_of, narrow, pass_activation_, through_activation


class Perceptron(nn.Module):
    """Layers of weights [H', H] and biases [H'], initialised as torch's `nn.Linear`.

    Args:
        inputs, outputs: columns.
        hidden: widths of the hidden layers.
        activation: ``"relu"`` or ``"tanh"``, of the hidden layers.
        squash: whether the outputs are bounded to [-1, 1], by a tanh.
    """

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, squash: bool = False):
        super().__init__()
        self.relu, self.squash = activation == "relu", squash
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise((inputs, *hidden, outputs))]
        self.weights = nn.ParameterList([layer.weight for layer in layers])
        self.biases = nn.ParameterList([layer.bias for layer in layers])
        self._layers = tuple(zip(self.weights, self.biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """Returns outputs float32[B, outputs] of inputs float32[B, inputs]."""
        with narrow(len(x)):
            return self.forward_saving(x)[-1]

    def forward_saving(self, x: Tensor) -> list[Tensor]:
        """Returns the activations [x, h1, …, outputs] for the backward passes."""
        saved, last = [x], len(self._layers) - 1
        for layer, (weight, bias) in enumerate(self._layers):
            with narrow(min(weight.shape)):
                x = F.linear(x, weight, bias)
            if layer < last:
                x = x.relu_() if self.relu else x.tanh_()
            elif self.squash:
                x = x.tanh_()
            saved.append(x)
        return saved

    @torch.inference_mode()
    def backward_into_gradients(self, saved: list[Tensor], d: Tensor) -> None:
        """Overwrite every parameter's ``.grad`` with the gradient, given that of the outputs, float32[B, outputs]."""
        if self.squash:
            d = through_activation(d, saved[-1], relu=False)
        for layer, (weight, bias) in reversed(tuple(enumerate(self._layers))):
            with narrow(min(weight.shape)):
                torch.mm(d.t(), saved[layer], out=gradient_of(weight))
                torch.sum(d, 0, out=gradient_of(bias))
                if layer > 0:
                    d = pass_activation_(d @ weight, saved[layer], self.relu)

    @torch.inference_mode()
    def input_gradient(self, saved: list[Tensor], d: Tensor) -> Tensor:
        """Returns the gradient of the inputs, float32[B, inputs], given that of the outputs."""
        if self.squash:
            d = through_activation(d, saved[-1], relu=False)
        for layer, (weight, _) in reversed(tuple(enumerate(self._layers))):
            d = d @ weight
            if layer > 0:
                d = pass_activation_(d, saved[layer], self.relu)
        return d


class Critic(Perceptron):
    """A perceptron that says what one action is worth."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...], activation: str):
        super().__init__(inputs + actions, 1, hidden, activation)

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:  # type: ignore[override]
        """Inputs [B, D] and actions [B, A] to values [1, B]."""
        return super().forward(torch.cat((inputs, actions), 1)).t()
