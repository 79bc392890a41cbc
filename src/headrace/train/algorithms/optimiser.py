"""Adam over one flat vector, as an operation on each of many small tensors is limited by the cost of its dispatch.

All parameters of a module are moved into one contiguous vector (and their gradients into
another) of which they become views. Clipping, Adam and checkpoints then are a few
operations on a vector, whatever the architecture of the network.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

ALIGNMENT = 16  # floats: parameters start on a cache line


class FlatAdam:
    """Adam (Kingma & Ba 2015) with global gradient-norm clipping.

    Args:
        memory: of the parameters, as `flatten`.

    Attributes:
        parameters: float32[P], which the module's parameters are views of.
        gradient: float32[P], which their ``.grad`` are views of.
        rows: number of samples of which the gradient is the mean, a number or a 0-d tensor; set by the backward pass.
        reduce: called with ``gradient`` and ``rows`` before each step, to average gradients over several processes in
            place (`headrace.train.processes.process_group`); None for one process.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        epsilon: float = 1e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        memory: Tensor | None = None,
    ):
        self.epsilon, self.betas = epsilon, betas
        self.parameters, offsets = flatten(module, memory)
        self.gradient, self.mean, self.square = (torch.zeros_like(self.parameters) for _ in range(3))
        self.steps = torch.zeros((), device=self.parameters.device)
        self._tensors = [self.parameters], [self.gradient], [self.mean], [self.square], [], [self.steps]
        kind: dict[str, Any] = {"weight_decay": 0.0, "amsgrad": False, "maximize": False}
        self._constants = {"beta1": betas[0], "beta2": betas[1], "eps": epsilon} | kind
        self.rows: float | Tensor = 1.0
        self.reduce: Callable[[Tensor, float | Tensor], object] | None = None
        for leaf, offset in zip(module.parameters(), offsets, strict=True):
            leaf.grad = _view(self.gradient, offset, leaf)

    @torch.inference_mode()
    def step(self, learning_rate: float | Tensor, max_norm: float | Tensor) -> Tensor:
        """Clips the gradient to ``max_norm``, applies it, and returns its norm before clipping (a 0-d tensor)."""
        if self.reduce is not None:
            self.reduce(self.gradient, self.rows)
        norm = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        self._apply(learning_rate)
        return norm

    @torch.inference_mode()
    def step_unclipped(self, learning_rate: float | Tensor) -> None:
        if self.reduce is not None:
            self.reduce(self.gradient, self.rows)
        self._apply(learning_rate)

    def _apply(self, learning_rate: float | Tensor) -> None:
        self.steps += 1
        # the kernel that torch.optim.Adam(fused=True) calls, without that optimiser's overhead of 25 µs
        torch._fused_adam_(*self._tensors, lr=learning_rate, **self._constants)  # type: ignore

    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


class FlatRAdam(FlatAdam):
    """Adam whose first steps are small, while estimates of the second moments have a high variance.

    Source: Liu et al. 2020 (arXiv:1908.03265); as in torch, epsilon is added to the square root.
    """

    def _apply(self, learning_rate: float | Tensor) -> None:
        self.steps += 1
        beta1, beta2 = self.betas
        self.mean.lerp_(self.gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(self.gradient, self.gradient, value=1 - beta2)
        steps = self.steps.double()
        left = 1 - beta2**steps
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * steps * (1 - left) / left
        rest = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        known = length > 5
        rate = learning_rate / (1 - beta1**steps)
        scale = torch.where(known, (rest.clamp(min=0) * left).sqrt(), 0.0).float()
        adapted = self.mean * scale / (self.square.sqrt() + self.epsilon)
        self.parameters.sub_(torch.where(known, adapted, self.mean) * rate.float())


def flatten(module: nn.Module, memory: Tensor | None = None) -> tuple[Tensor, list[int]]:
    """Makes a module's parameters views of one vector; returns it, float32[P], and each one's offset.

    Args:
        memory: the vector, float32[P]; by default a new one.
    """
    leaves = list(module.parameters())
    *offsets, total = itertools.accumulate(map(_aligned, leaves), initial=0)
    flat = torch.zeros(total, device=leaves[0].device) if memory is None else memory
    for leaf, offset in zip(leaves, offsets, strict=True):
        value = _view(flat, offset, leaf)
        value.copy_(leaf.detach())
        leaf.data = value
    return flat, offsets


def flat_size(module: nn.Module) -> int:
    """Returns the elements P of the vector that `flatten` returns."""
    return sum(map(_aligned, module.parameters()))


def _aligned(leaf: Tensor) -> int:
    return -(-leaf.numel() // ALIGNMENT) * ALIGNMENT


def _view(flat: Tensor, offset: int, leaf: Tensor) -> Tensor:
    """Returns a part of ``flat`` in the leaf's shape; convolution weights are channels-last, for their kernels."""
    part = flat[offset : offset + leaf.numel()]
    if leaf.dim() == 4:
        o, i, h, w = leaf.shape
        return part.view(o, h, w, i).permute(0, 3, 1, 2)
    return part.view(leaf.shape)
