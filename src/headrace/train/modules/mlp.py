"""Actor and critic as small perceptrons.

The small networks of classic control and locomotion are limited by the overhead of operations, not by arithmetic.
`MLP` therefore computes actor and critic together as one batched product.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.modules.layers import is_exporting, orthogonal, tanh_, with_log_std


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
        """a `CompiledNetwork` of this network, which then answers where no gradient is recorded"""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns action parameters [B, size] and values [B] of observations float32[B, D]."""
        if self.compiled is None or torch.is_grad_enabled() or is_exporting():
            return self.layered(x)
        outputs = self.compiled.forward(x.contiguous())
        return with_log_std(outputs[:, :-1], self.log_std), outputs[:, -1]

    def layered(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the results of `forward`, computed by torch layer by layer."""
        act = torch.relu_ if self.relu else tanh_
        own: dict[str, Any] = self._parameters  # attribute lookup in nn.Module takes as long as a small product
        h = act(F.linear(x, own["first_weight"], own["first_bias"]))  # [B, K·H]
        h = h.view(x.shape[0], self.count, -1).transpose(0, 1)  # [K, B, H]
        for weight, bias in self._layers:
            h = act(torch.baddbmm(bias, h, weight))  # [K, B, H']
        # products with few rows of many columns are faster than with many rows of few columns
        params = torch.addmm(own["policy_bias"].unsqueeze(1), own["policy_weight"], h[0].t()).t()
        value = F.linear(h[-1], own["value_weight"], own["value_bias"]).squeeze(1)
        return with_log_std(params, self.log_std), value
