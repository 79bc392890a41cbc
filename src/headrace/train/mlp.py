"""Two small perceptrons with a backward pass of their own.

The small networks of classic control and locomotion spend their time in dispatching tiny
operations, not in arithmetic. So `MLP` computes actor and critic side by side as one batched
product, and its backward pass writes into the gradient buffer directly.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.layers import gradient_of, orthogonal, through_activation, with_log_std


class MLP(nn.Module):
    """Separate actor and critic perceptrons of equal shape, evaluated together.

    Parameters hold both towers: the first layer maps [B, D] to [B, 2·H], all later ones are batched
    [2, H, H'], tower 0 the actor and tower 1 the critic. Orthogonal initialisation with gain √2,
    0.01 for the policy head and 1 for the value head (Andrychowicz et al. 2021, Huang et al. 2022).
    """

    def __init__(
        self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, log_std: nn.Parameter | None
    ):
        super().__init__()
        self.relu = activation == "relu"
        width = hidden[0]
        self.first_weight = nn.Parameter(torch.cat([orthogonal(width, inputs) for _ in range(2)]))  # [2H, D]
        self.first_bias = nn.Parameter(torch.zeros(2 * width))
        pairs = list(itertools.pairwise(hidden))
        stack = [torch.stack([orthogonal(b, a).t() for _ in range(2)]) for a, b in pairs]  # each [2, H, H']
        self.weights = nn.ParameterList([nn.Parameter(w.contiguous()) for w in stack])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(2, 1, b)) for _, b in pairs])
        self.policy_weight = nn.Parameter(orthogonal(outputs, hidden[-1], 0.01))
        self.policy_bias = nn.Parameter(torch.zeros(outputs))
        self.value_weight = nn.Parameter(orthogonal(1, hidden[-1], 1.0))
        self.value_bias = nn.Parameter(torch.zeros(1))
        self.log_std = log_std

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Observations float32[B, D] to action parameters [B, size] and values [B]."""
        return self.forward_saving(x)[:2]

    def forward_saving(self, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """As `forward`, and the activations [x, h1, h2, …] for `backward_into_gradients`."""
        act = F.relu if self.relu else torch.tanh
        h = act(F.linear(x, self.first_weight, self.first_bias))  # [B, 2H]
        h = h.view(len(x), 2, -1).transpose(0, 1)  # [2, B, H]
        saved = [x, h]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = act(torch.baddbmm(bias, h, weight))  # [2, B, H']
            saved.append(h)
        params = F.linear(h[0], self.policy_weight, self.policy_bias)
        value = F.linear(h[1], self.value_weight, self.value_bias).squeeze(1)
        return with_log_std(params, self.log_std), value, saved

    @torch.inference_mode()
    def backward_into_gradients(
        self, saved: list[Tensor], d_params: Tensor, d_value: Tensor, add: bool = False
    ) -> None:
        """Overwrite every parameter's ``.grad`` with the gradient, given those of the outputs, or ``add`` to it."""
        h = saved[-1]  # [2, B, H]
        if self.log_std is not None:
            d_params, d_log_std = d_params.chunk(2, -1)
            _sum(d_log_std, gradient_of(self.log_std), add)
        d_value = d_value.unsqueeze(1)
        _product(d_params.t(), h[0], gradient_of(self.policy_weight), add)
        _sum(d_params, gradient_of(self.policy_bias), add)
        _product(d_value.t(), h[1], gradient_of(self.value_weight), add)
        _sum(d_value, gradient_of(self.value_bias), add)
        d = torch.empty(h.shape, device=h.device)  # d loss/d h, [2, B, H]
        torch.mm(d_params, self.policy_weight, out=d[0])
        torch.mm(d_value, self.value_weight, out=d[1])
        for layer in reversed(range(len(self.weights))):
            d = through_activation(d, saved[layer + 2], self.relu)
            below = saved[layer + 1]
            _product(below.transpose(1, 2), d, gradient_of(self.weights[layer]), add)
            _sum(d, gradient_of(self.biases[layer]), add)
            # the first layer's activations are [B, 2, H] in memory, and so is their gradient
            into = torch.empty(below.shape[1], 2, below.shape[2], device=d.device) if layer == 0 else None
            into = into.transpose(0, 1) if into is not None else torch.empty_like(below)
            d = torch.bmm(d, self.weights[layer].transpose(1, 2), out=into)
        d = through_activation(d, saved[1], self.relu).transpose(0, 1).reshape(len(saved[0]), -1)  # [B, 2H]
        _product(d.t(), saved[0], gradient_of(self.first_weight), add)
        _sum(d, gradient_of(self.first_bias), add)


def _product(a: Tensor, b: Tensor, into: Tensor, add: bool) -> None:
    """``a @ b`` of matrices, or of batches of them."""
    if a.dim() == 2:
        into.addmm_(a, b) if add else torch.mm(a, b, out=into)
    else:
        into.baddbmm_(a, b) if add else torch.bmm(a, b, out=into)


def _sum(d: Tensor, into: Tensor, add: bool) -> None:
    """Over the rows: the first axis of [B, H], the second of [2, B, H]."""
    batched = d.dim() == 3
    if add:
        into.add_(d.sum(int(batched), keepdim=batched))
    else:
        torch.sum(d, int(batched), keepdim=batched, out=into)
