"""Actor and critic as small perceptrons.

The small networks of classic control and locomotion are limited by the overhead of operations, not by arithmetic.
`MLP` therefore computes actor and critic together as one batched product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.modules.layers import is_exporting, orthogonal, tanh_, with_log_std


class MLP(nn.Module):
    """Actor and critic perceptrons of equal hidden layers, evaluated together; or one perceptron with both heads.

    Parameters hold all K perceptrons: the first layer maps [B, D] to [B, K·H], all later ones are batched
    [K, H, H']. The first of two is the actor, the second the critic; a shared one is both. Where the critic reads more
    columns than the actor, its first layer has weights of its own, [H, D + C], and the actor's are [H, D].
    Orthogonal initialisation with gain √2, 0.01 for the policy head and 1 for the value head
    (Andrychowicz et al. 2021, Huang et al. 2022).

    Args:
        inputs: the columns D that the actor reads.
        critic: the columns C after them, which only the critic reads.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: tuple[int, ...],
        activation: str,
        log_std: nn.Parameter | None,
        shared: bool = False,
        critic: int = 0,
    ):
        super().__init__()
        self.relu = activation == "relu"
        width, self.count = hidden[0], 1 if shared else 2
        each = range(self.count)
        self.columns = inputs + critic
        own = [orthogonal(width, inputs) for _ in each] if not critic else [orthogonal(width, inputs)]
        self.first_weight = nn.Parameter(torch.cat(own))  # [K·H, D], or [H, D] beside critic_weight [H, D + C]
        if critic:
            self.critic_weight = nn.Parameter(orthogonal(width, self.columns))
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
        """Returns action parameters [B, size] and values [B] of observations float32[B, D + C].

        Of observations [B, D], without what only the critic reads, values are NaN.
        """
        if self.compiled is None or torch.is_grad_enabled() or is_exporting() or x.shape[1] < self.columns:
            return self.layered(x)
        outputs = self.compiled.forward(x.contiguous())
        return with_log_std(outputs[:, :-1], self.log_std), outputs[:, -1]

    def layered(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the results of `forward`, computed by torch layer by layer."""
        act = torch.relu_ if self.relu else tanh_
        own: dict[str, Any] = self._parameters  # attribute lookup in nn.Module takes as long as a small product
        if "critic_weight" in own:
            h = self._first_apart(x, act)
        else:
            h = act(F.linear(x, own["first_weight"], own["first_bias"]))  # [B, K·H]
            h = h.view(x.shape[0], self.count, -1).transpose(0, 1)  # [K, B, H]
        for weight, bias in self._layers:
            h = act(torch.baddbmm(bias[: len(h)], h, weight[: len(h)]))  # [K, B, H']
        # products with few rows of many columns are faster than with many rows of few columns
        params = torch.addmm(own["policy_bias"].unsqueeze(1), own["policy_weight"], h[0].t()).t()
        if x.shape[1] < self.columns:
            return with_log_std(params, self.log_std), x.new_full((x.shape[0],), math.nan)
        value = F.linear(h[-1], own["value_weight"], own["value_bias"]).squeeze(1)
        return with_log_std(params, self.log_std), value

    def _first_apart(self, x: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns the first layers' outputs [K, B, H]; K is 1 without what only the critic reads."""
        width, columns = self.first_weight.shape
        biases = self.first_bias.split(width)
        actor = act(F.linear(x[:, :columns], self.first_weight, biases[0]))
        if x.shape[1] < self.columns:
            return actor.unsqueeze(0)
        return torch.stack((actor, act(F.linear(x, self.critic_weight, biases[1]))))
