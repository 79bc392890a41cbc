"""Several critics of equal shape, evaluated as one batched product, with hand-written backward passes.

An update of small critics is a hundred small operations, whose overhead takes longer than their products. The critics
are therefore one batch; the first layer's biases are a row of its weights, multiplied by a column of ones in the
inputs; and each backward pass computes only the required gradients: of all parameters, or of some of the inputs.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from headrace.train.modules.layers import gradient_of, is_exporting, narrow, pass_activation_, tanh_


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
        # attribute lookup in nn.Module takes as long as a small product
        self._layers = self.first, tuple(zip(self.weights, self.biases, strict=True)), self.last, self.last_bias
        self._ones = torch.ones(0, 1)

    def joined(self, *parts: Tensor) -> Tensor:
        """Returns parts of the inputs and a column of ones concatenated, float32[B, D + 1], for the other methods."""
        if is_exporting():
            return torch.cat((*parts, parts[0].new_ones(parts[0].shape[0], 1)), 1)
        rows, device = len(parts[0]), parts[0].device
        if len(self._ones) != rows or self._ones.device != device:
            self._ones = torch.ones(rows, 1, device=device)
        return torch.cat((*parts, self._ones), 1)

    def forward(self, *parts: Tensor) -> Tensor:
        """Maps parts of the inputs, together D columns, to values [K, B]."""
        return self.forward_saving(self.joined(*parts))[0]

    def forward_saving(self, x: Tensor, critics: int | None = None) -> tuple[Tensor, list[Tensor]]:
        """Returns values [K, B], of the first ``critics`` if given, and activations [x, h1, …] for backward passes."""
        act = torch.relu_ if self.relu else tanh_
        first, layers, last, last_bias = self._of(critics)
        with narrow(x.shape[1]):
            h = act(torch.bmm(x.expand(len(first), *x.shape), first))  # [K, B, H]
        saved = [x, h]
        for weight, bias in layers:
            h = act(torch.bmm(h, weight).add_(bias))  # baddbmm needs one more pass over the memory
            saved.append(h)
        with narrow(1):
            values = torch.bmm(last, h.mT)
        return values.squeeze(1).add_(last_bias), saved

    def _of(self, critics: int | None) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...], Tensor, Tensor]:
        """Returns the parameters of the first ``critics`` critics, or of all critics if that is None."""
        if critics is None or critics == self.critics:
            return self._layers
        first, layers, last, last_bias = self._layers
        return (
            first[:critics],
            tuple((w[:critics], b[:critics]) for w, b in layers),
            last[:critics],
            last_bias[:critics],
        )

    @torch.inference_mode()
    def fit_into_gradients(self, x: Tensor, wanted: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Overwrites every parameter's ``.grad`` for the loss ``½ Σ mean(weights · (values - wanted)²)``.

        Args:
            x: `joined` inputs, [B, D + 1].
            wanted: targets of all critics, [B].
            weights: weight of each row, [B]; None for equal weights.

        Returns:
            The loss and the mean of the values, 0-d tensors.
        """
        values, saved = self.forward_saving(x)
        error = values - wanted
        d = error * (1 / len(x)) if weights is None else error * weights.mul(1 / len(x))
        self.backward_into_gradients(saved, d)
        return torch.dot(error.view(-1), d.view(-1)).mul_(0.5), values.mean()

    @torch.inference_mode()
    def backward_into_gradients(self, saved: list[Tensor], d: Tensor) -> None:
        """Overwrites every parameter's ``.grad``, given the gradient ``d`` of the values of all critics, [K, B]."""
        first, layers, last, last_bias = self._layers
        x, h = saved[0], saved[-1]
        with narrow(1):
            torch.bmm(d.unsqueeze(1), h, out=gradient_of(last))
        torch.sum(d, 1, keepdim=True, out=gradient_of(last_bias))
        d = torch.mul(d.unsqueeze(2), last)  # [K, B, H]
        for i in reversed(range(len(layers))):
            (weight, bias), below = layers[i], saved[i + 1]
            d = pass_activation_(d, saved[i + 2], self.relu)
            torch.bmm(below.mT, d, out=gradient_of(weight))
            torch.sum(d, 1, keepdim=True, out=gradient_of(bias))
            d = torch.bmm(d, weight.mT)
        d = pass_activation_(d, saved[1], self.relu)
        with narrow(x.shape[1]):
            torch.bmm(x.t().expand(self.critics, x.shape[1], len(x)), d, out=gradient_of(first))

    @torch.inference_mode()
    def input_gradient(self, saved: list[Tensor], d: Tensor, begin: int) -> Tensor:
        """Returns the gradient of the inputs from column ``begin`` on, [B, D - begin], given ``d`` of values [K, B].

        K is the number of critics that `forward_saving` evaluated.
        """
        first, layers, last, _ = self._of(len(d))
        d = torch.mul(d.unsqueeze(2), last)
        for i in reversed(range(len(layers))):
            d = pass_activation_(d, saved[i + 2], self.relu)
            d = torch.bmm(d, layers[i][0].mT)
        d = pass_activation_(d, saved[1], self.relu)
        with narrow(first.shape[1] - begin):
            return torch.bmm(first[:, begin:-1], d.mT).sum(0).t()


def _stacked(layers: tuple[nn.Linear, ...]) -> tuple[Tensor, Tensor]:
    """Returns a layer of each critic: weights [K, inputs, outputs] and biases [K, 1, outputs]."""
    weight = torch.stack([layer.weight.detach().t() for layer in layers])
    return weight.contiguous(), torch.stack([layer.bias.detach() for layer in layers]).unsqueeze(1)
