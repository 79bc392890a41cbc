"""Initialisation, products and activations that all networks share."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn


def orthogonal(rows: int, columns: int, gain: float = math.sqrt(2)) -> Tensor:
    """Returns float32[rows, columns], random, with orthogonal rows or columns (Saxe et al. 2014, arXiv:1312.6120)."""
    return nn.init.orthogonal_(torch.empty(rows, columns), gain)


def initialised(layer: Any, gain: float = math.sqrt(2)) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def with_log_std(params: Tensor, log_std: Tensor | None) -> Tensor:
    """Returns means [B, n] and log standard deviations [n] concatenated, [B, 2n]; only the means if there are none."""
    return params if log_std is None else torch.cat((params, log_std.expand_as(params)), -1)


NARROW = 64
"""columns up to which full precision is faster, as rounding a product's factors takes longer than it saves"""


def narrow(columns: int) -> AbstractContextManager[object]:
    """Returns a context for products with a factor of ``columns`` columns: in full precision for few columns."""
    return FullPrecision() if not is_exporting() and columns <= NARROW else nullcontext()


def is_exporting() -> bool:
    """Returns whether a network is being exported; it must then use standard layers and allow any number of rows."""
    return torch.compiler.is_exporting() or torch._C._is_tracing()


class FullPrecision:
    """A context in which products use float32, whatever ``matmul_precision`` is."""

    def __enter__(self) -> None:
        self._before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self._before)


def tanh_(x: Tensor) -> Tensor:
    """Replaces float32[…] by its hyperbolic tangent, and returns it.

    On a CPU, where no gradient is recorded, it is 2σ(2x) - 1, with an error below 3e-7: torch's sigmoid is several
    times as fast as its tanh.
    """
    if x.requires_grad or x.device.type != "cpu" or is_exporting():
        return x.tanh_()
    return torch.add(_MINUS_ONE, x.mul_(2.0).sigmoid_(), alpha=2.0, out=x)


_MINUS_ONE = torch.tensor(-1.0)
