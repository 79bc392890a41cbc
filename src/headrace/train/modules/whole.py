"""A module whose backward pass is written by hand, as one node of autograd's graph.

So a loss can be plain autograd, while the module underneath writes its gradients straight into the optimiser's buffer.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class HandWritten(Protocol):
    """A module with a backward pass of its own."""

    def forward_saving(self, x: Tensor) -> tuple[Tensor, Any]:
        """Outputs, and what `backward_into_gradients` needs."""
        ...

    def backward_into_gradients(self, saved: Any, d: Tensor) -> None:
        """Overwrite every parameter's ``.grad`` with the gradient, given that of the outputs."""
        ...


def whole(module: Any, x: Tensor) -> Tensor:
    """Returns the outputs of a `HandWritten` module, or of any other; backward from them fills its gradients."""
    if not hasattr(module, "backward_into_gradients"):
        return module(x)
    return _Whole.apply(module, next(module.parameters()), x)  # type: ignore[return-value]


class _Whole(torch.autograd.Function):
    """The parameter is there so that autograd asks for a backward pass; its gradient is written, not returned."""

    @staticmethod
    def forward(ctx: Any, module: HandWritten, parameter: Tensor, x: Tensor) -> Tensor:
        outputs, ctx.saved = module.forward_saving(x)
        ctx.module = module
        return outputs

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[None, None, None]:  # type: ignore[override]
        saved, ctx.saved = ctx.saved, None  # activations are not kept for as long as somebody holds the loss
        ctx.module.backward_into_gradients(saved, d)
        return None, None, None
