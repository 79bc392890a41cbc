"""Noise that is kept for several steps, so that exploration reaches farther than with new noise in each step.

Noise is kept for n steps with a probability proportional to n⁻², up to a limit: mostly for one, sometimes for many.

Source: Dabney et al. 2021 (arXiv:2006.01782) for the zeta distribution; Kim et al. 2026 (arXiv:2604.04539) for noise in
place of actions, all environments together.
"""

from __future__ import annotations

import torch
from torch import Tensor

EXPONENT = 2.0


class RepeatedNoise:
    """A source of standard normal noise that stays the same for several consecutive steps.

    Args:
        longest: the largest number of steps; 1 for new noise in each.
    """

    def __init__(self, longest: int):
        weights = torch.arange(1, longest + 1, dtype=torch.float64) ** -EXPONENT
        self._cumulative = (weights / weights.sum()).cumsum(0)[:-1].float()
        self._left = 0
        self._kept: Tensor | None = None

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills noise in place, and returns it.

        Args:
            noise: float32[T, B, A] for the steps of a rollout, which begins with new noise; or float32[B, A] for one
                step, which keeps the last call's noise if that lasts for more steps and has as many rows.
        """
        return self._rollout(noise, generator) if noise.dim() == 3 else self._step(noise, generator)

    def _rollout(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        ends = self._lengths(len(noise), generator).cumsum(0)
        now = torch.searchsorted(ends, torch.arange(len(noise), device=noise.device), right=True)
        return noise.copy_(torch.empty_like(noise).normal_(generator=generator)[now])

    def _step(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        if self._left and self._kept is not None and self._kept.shape == noise.shape:
            self._left -= 1
            return noise.copy_(self._kept)
        self._left = int(self._lengths(1, generator)) - 1
        self._kept = noise.normal_(generator=generator).clone()
        return noise

    def _lengths(self, count: int, generator: torch.Generator) -> Tensor:
        chance = torch.rand(count, generator=generator, device=generator.device)
        return 1 + torch.bucketize(chance, self._cumulative.to(chance.device), right=True)
