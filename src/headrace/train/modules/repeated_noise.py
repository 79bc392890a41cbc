"""Noise that is kept for several steps, so that exploration reaches farther than with new noise in each step.

Noise is kept for n steps with a probability proportional to n⁻², up to a limit: mostly for one, sometimes for many.

Source: Dabney et al. 2021 (arXiv:2006.01782) for the zeta distribution; Kim et al. 2026 (arXiv:2604.04539) for noise in
place of actions, all environments together.
"""

from __future__ import annotations

from collections.abc import Mapping

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
        self._left: Tensor | None = None  # how many steps the kept noise lasts, int64[1]
        self._kept: Tensor | None = None

    def draw(self, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Fills noise in place, and returns it; it begins with that of the last call, if it lasts for more steps.

        Args:
            noise: float32[T, B, A] for the steps of a rollout, or float32[B, A] for one step; noise that is kept has as
                many rows.
        """
        rollout = noise if noise.dim() == 3 else noise.unsqueeze(0)
        fresh, steps = torch.empty_like(rollout).normal_(generator=generator), len(rollout)
        if self._kept is None or self._left is None or self._kept.shape != rollout.shape[1:]:
            self._kept, self._left = fresh[0], torch.zeros(1, dtype=torch.int64)
        kept, left = self._kept.to(noise.device), self._left.to(noise.device)  # which may be from a checkpoint
        ends = torch.cat((left, self._lengths(steps, generator))).cumsum(0)
        now = torch.searchsorted(ends, torch.arange(steps, device=noise.device), right=True)
        each, last = torch.cat((kept.unsqueeze(0), fresh)), now[-1:]
        rollout.copy_(each[now])
        self._kept, self._left = each[last].squeeze(0), ends[last] - steps
        return noise

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint; none before the first call of `draw`."""
        return {} if self._kept is None or self._left is None else {"kept": self._kept, "left": self._left}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores the tensors that `state` returned."""
        self._kept, self._left = state.get("kept"), state.get("left")

    def _lengths(self, count: int, generator: torch.Generator) -> Tensor:
        chance = torch.rand(count, generator=generator, device=generator.device)
        return 1 + torch.bucketize(chance, self._cumulative.to(chance.device), right=True)
