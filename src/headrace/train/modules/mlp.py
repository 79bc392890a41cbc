"""Small perceptrons with a hand-written backward pass.

The small networks of classic control and locomotion are limited by the overhead of operations, not by arithmetic.
`MLP` therefore computes actor and critic together as one batched product, and its backward pass writes directly into
the gradient buffer.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.modules.layers import gradient_of, is_exporting, orthogonal, tanh_, through_activation, with_log_std


class MLP(nn.Module):
    """Actor and critic perceptrons of equal shape, evaluated together; or one perceptron with both heads.

    Parameters hold all K perceptrons: the first layer maps [B, D] to [B, K·H], all later ones are batched
    [K, H, H']. The first of two is the actor, the second the critic; a shared one is both.
    Orthogonal initialisation with gain √2, 0.01 for the policy head and 1 for the value head
    (Andrychowicz et al. 2021, Huang et al. 2022).
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: tuple[int, ...],
        activation: str,
        log_std: nn.Parameter | None,
        shared: bool = False,
    ):
        super().__init__()
        self.relu = activation == "relu"
        width, self.count = hidden[0], 1 if shared else 2
        each = range(self.count)
        self.first_weight = nn.Parameter(torch.cat([orthogonal(width, inputs) for _ in each]))  # [K·H, D]
        self.first_bias = nn.Parameter(torch.zeros(self.count * width))
        pairs = list(itertools.pairwise(hidden))
        stack = [torch.stack([orthogonal(b, a).t() for _ in each]) for a, b in pairs]  # each [K, H, H']
        self.weights = nn.ParameterList([nn.Parameter(w.contiguous()) for w in stack])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(self.count, 1, b)) for _, b in pairs])
        self._layers = tuple(zip(self.weights, self.biases, strict=True))
        self.policy_weight = nn.Parameter(orthogonal(outputs, hidden[-1], 0.01))
        self.policy_bias = nn.Parameter(torch.zeros(outputs))
        self.value_weight = nn.Parameter(orthogonal(1, hidden[-1], 1.0))
        self.value_bias = nn.Parameter(torch.zeros(1))
        self.log_std = log_std
        self.compiled: Any = None
        """a `CompiledMLP` of this network, which then answers where no gradient is recorded"""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns action parameters [B, size] and values [B] of observations float32[B, D]."""
        if self.compiled is None or torch.is_grad_enabled() or is_exporting():
            return self.forward_saving(x)[:2]
        outputs = self.compiled.forward(x.contiguous())
        return with_log_std(outputs[:, :-1], self.log_std), outputs[:, -1]

    def forward_saving(self, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns the results of `forward`, and the activations [x, h1, h2, …] for `backward_into_gradients`."""
        act = torch.relu_ if self.relu else tanh_
        own: dict[str, Any] = self._parameters  # attribute lookup in nn.Module takes as long as a small product
        h = act(F.linear(x, own["first_weight"], own["first_bias"]))  # [B, K·H]
        h = h.view(x.shape[0], self.count, -1).transpose(0, 1)  # [K, B, H]
        saved = [x, h]
        for weight, bias in self._layers:
            h = act(torch.baddbmm(bias, h, weight))  # [K, B, H']
            saved.append(h)
        # products with few rows of many columns are faster than with many rows of few columns
        params = torch.addmm(own["policy_bias"].unsqueeze(1), own["policy_weight"], h[0].t()).t()
        value = F.linear(h[-1], own["value_weight"], own["value_bias"]).squeeze(1)
        return with_log_std(params, self.log_std), value, saved

    @torch.inference_mode()
    def backward_into_gradients(
        self, saved: list[Tensor], d_params: Tensor, d_value: Tensor, add: bool = False
    ) -> None:
        """Overwrites every parameter's ``.grad`` with the gradient of a loss.

        Args:
            saved: the activations that `forward_saving` returned.
            d_params: d loss/d action parameters, including log standard deviations, float32[B, size].
            d_value: d loss/d values, float32[B].
            add: whether to add to ``.grad`` instead.
        """
        h = saved[-1]  # [K, B, H]
        own: dict[str, Any] = self._parameters
        if self.log_std is not None:
            d_params, d_log_std = d_params.chunk(2, -1)
            _sum(d_log_std, gradient_of(self.log_std), add)
        d_value = d_value.unsqueeze(1)
        _product(d_params.t(), h[0], gradient_of(own["policy_weight"]), add)
        _sum(d_params, gradient_of(own["policy_bias"]), add)
        _product(d_value.t(), h[-1], gradient_of(own["value_weight"]), add)
        _sum(d_value, gradient_of(own["value_bias"]), add)
        d = torch.empty(h.shape, device=h.device)  # d loss/d h, [K, B, H]
        torch.mm(d_params, own["policy_weight"], out=d[0])
        _product(d_value, own["value_weight"], d[-1], add=self.count == 1)
        for layer, (weight, bias) in reversed(list(enumerate(self._layers))):
            d = through_activation(d, saved[layer + 2], self.relu)
            below = saved[layer + 1]
            _product(below.transpose(1, 2), d, gradient_of(weight), add)
            _sum(d, gradient_of(bias), add)
            # the first layer's activations are [B, K, H] in memory, and so is their gradient
            into = torch.empty(below.shape[1], self.count, below.shape[2], device=d.device) if layer == 0 else None
            into = into.transpose(0, 1) if into is not None else torch.empty_like(below)
            d = torch.bmm(d, weight.transpose(1, 2), out=into)
        d = through_activation(d, saved[1], self.relu).transpose(0, 1).reshape(len(saved[0]), -1)  # [B, K·H]
        _product(d.t(), saved[0], gradient_of(own["first_weight"]), add)
        _sum(d, gradient_of(own["first_bias"]), add)


def _product(a: Tensor, b: Tensor, into: Tensor, add: bool) -> None:
    """Writes ``a @ b`` of matrices, or of batches of matrices, to ``into``; or ``add``s it."""
    if a.dim() == 2:
        into.addmm_(a, b) if add else torch.mm(a, b, out=into)
    else:
        into.baddbmm_(a, b) if add else torch.bmm(a, b, out=into)


def _sum(d: Tensor, into: Tensor, add: bool) -> None:
    """Writes the sum over rows, the first axis of [B, H] or the second of [K, B, H], to ``into``; or ``add``s it."""
    batched = d.dim() == 3
    if add:
        into.add_(d.sum(int(batched), keepdim=batched))
    else:
        torch.sum(d, int(batched), keepdim=batched, out=into)
