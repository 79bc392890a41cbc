"""A recurrent network's memory in a rollout."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class RecurrentMemory:
    """A recurrent network's memory before each of T steps and after the last, and where episodes start.

    Args:
        size: columns of the network's memory, H.

    Attributes:
        values: the memory, float32[T + 1, columns, H].
        starts: whether an episode starts with a step, bool[T + 1, columns].
    """

    def __init__(self, steps: int, columns: int, size: int, device: torch.device):
        self.values = torch.zeros(steps + 1, columns, size, device=device)
        self.starts = torch.zeros(steps + 1, columns, dtype=torch.bool, device=device)

    def begin(self) -> None:
        self.values[0].copy_(self.values[-1])
        self.starts[0].copy_(self.starts[-1])

    def before(self, t: int, columns: slice) -> Tensor:
        """Returns the memory before step t, float32[columns, H]; 0 at the start of an episode."""
        return self.values[t, columns].masked_fill(self.starts[t, columns].unsqueeze(1), 0.0)

    def note_ends(self, t: int, envs: Tensor | slice, ends: Tensor, width: int) -> None:
        """Marks where an episode ended with step t, as the memory is reset there.

        Args:
            envs: some environments: numbers int64[k], or a slice.
            ends: whether an episode of each ended, bool[k].
            width: columns of an environment.
        """
        self.starts[t + 1].view(-1, width)[envs] = ends.to(self.starts.device).unsqueeze(1)

    def state(self) -> dict[str, Tensor]:
        return {"memory": self.values[-1], "starts": self.starts[-1]}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.values[-1].copy_(state["memory"])
        self.starts[-1].copy_(state["starts"])
