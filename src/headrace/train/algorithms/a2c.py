"""Advantage actor-critic: one update from all of each rollout, with the plain policy gradient.

Source: Mnih et al. 2016 (arXiv:1602.01783), in its synchronous form.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.rates import Rates
from headrace.train.storage.samples import Samples


class A2C(OnPolicy):
    """A policy that descends ``-mean(A · log π) + value_coef · mean((v - R)²)/2 - entropy_coef · mean(H)``."""

    def draw_orders(self, samples: Samples, generator: torch.Generator) -> list[Tensor | None]:
        """One epoch of one minibatch, all rows in order."""
        return [None]

    def surrogate(
        self, log_prob: Tensor, batch: Samples, rates: Rates
    ) -> tuple[Tensor, Callable[[], tuple[Tensor, ...]]]:
        """The slope of ``A · log π``; the loss is reported as ``-mean(A)``, as that of a ratio that is 1 everywhere."""
        gain = batch.advantages
        return gain, lambda: (-gain,)
