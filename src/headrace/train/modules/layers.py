"""What all networks are made of."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn


def orthogonal(rows: int, columns: int, gain: float = math.sqrt(2)) -> Tensor:
    """A random matrix with orthogonal rows or columns (Saxe et al. 2014, arXiv:1312.6120)."""
    return nn.init.orthogonal_(torch.empty(rows, columns), gain)


def initialised(layer: Any, gain: float = math.sqrt(2)) -> Any:
    """A layer with orthogonal weights and no bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def with_log_std(params: Tensor, log_std: Tensor | None) -> Tensor:
    """Means [B, n] and the logarithm of their standard deviations side by side, [B, 2n]; or what needs none."""
    return params if log_std is None else torch.cat((params, log_std.expand_as(params)), -1)


NARROW = 64
"""columns up to which rounding a product's factors for matrix units takes longer than it saves"""


def narrow(columns: int) -> AbstractContextManager[object]:
    """A block for products of so many columns, on one side: in full precision if they are few."""
    return FullPrecision() if columns <= NARROW else nullcontext()


class FullPrecision:
    """A block whose products are of float32 factors, whatever ``matmul_precision`` says."""

    def __enter__(self) -> None:
        self._before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self._before)


def gradient_of(parameter: Tensor) -> Tensor:
    """Where a parameter's gradient goes, in the buffer of its `headrace.train.algorithms.optimiser.FlatAdam`."""
    assert parameter.grad is not None, "FlatAdam gives every parameter its gradient buffer"
    return parameter.grad


def through_activation(d: Tensor, output: Tensor, relu: bool) -> Tensor:
    """The gradient before a ReLU, or a tanh, given the one after it, and its output."""
    if relu:
        return torch.ops.aten.threshold_backward.default(d, output, 0.0)
    return torch.ops.aten.tanh_backward.default(d, output)


def pass_activation_(d: Tensor, output: Tensor, relu: bool) -> Tensor:
    """`through_activation` in place of ``d``."""
    if relu:
        return torch.ops.aten.threshold_backward.grad_input(d, output, 0.0, grad_input=d)
    return torch.ops.aten.tanh_backward.grad_input(d, output, grad_input=d)
