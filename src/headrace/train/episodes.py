"""Returns and lengths of finished episodes, counted where the rollouts are.

A rollout is counted as a whole, by sums over its columns: no step waits for it, and on a GPU
only the means come to the host, when somebody asks for them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class EpisodeTracker:
    """The last ``window`` finished episodes of ``num_envs`` environments.

    Attributes:
        everywhere: the sum of `totals` over several processes, which is then what is shown; None for one alone.
    """

    def __init__(self, num_envs: int, window: int, device: torch.device | str = "cpu"):
        self.window = window
        # one place more: what is counted nowhere goes there
        self._returns = torch.zeros(window + 1, dtype=torch.float64, device=device)
        self._lengths = torch.zeros(window + 1, dtype=torch.int64, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        # of the unfinished episodes
        self._return = torch.zeros(num_envs, dtype=torch.float64, device=device)
        self._length = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._summary: tuple[int, bool, float, float] | None = None
        self.everywhere: Tensor | None = None

    def update(self, rewards: Tensor, ends: Tensor) -> None:
        """Take in one rollout: rewards [T, N] and ends of episodes bool[T, N], wherever they are."""
        self._summary = self.everywhere = None
        rewards, ends = rewards.to(self._count.device), ends.to(self._count.device)
        steps = torch.arange(len(ends), device=ends.device).unsqueeze(1)
        earned = rewards.to(torch.float64).cumsum(0) + self._return  # by the episodes running at the start
        length = steps + 1 + self._length
        last = torch.where(ends, steps, -1).cummax(0).values  # the last end up to each step
        before = torch.cat([torch.full_like(last[:1], -1), last[:-1]])

        def since(end: Tensor, total: Tensor) -> Tensor:
            """What ``total`` was at an end of an episode, 0 where there was none."""
            return torch.where(end >= 0, total.gather(0, end.clamp(min=0)), 0)

        number = ends.flatten().cumsum(0)  # of the episodes in this rollout
        kept = ends.flatten() & (number > number[-1] - self.window)
        place = torch.where(kept, (self._count + number - 1) % self.window, self.window)
        self._returns[place] = (earned - since(before, earned)).flatten()
        self._lengths[place] = (length - since(before, length)).flatten()
        self._count += number[-1]
        self._return.copy_((earned[-1:] - since(last[-1:], earned))[0])
        self._length.copy_((length[-1:] - since(last[-1:], length))[0])

    @property
    def episodes(self) -> int:
        """Episodes finished since the beginning."""
        return self._read()[0]

    @property
    def full(self) -> bool:
        """Whether the window is filled."""
        return self._read()[1]

    def mean_return(self) -> float | None:
        """Mean return over the window, None before the first episode ends."""
        return self._read()[2] if self.episodes else None

    def mean_length(self) -> float | None:
        """Mean number of agent steps over the window, None before the first episode ends."""
        return self._read()[3] if self.episodes else None

    def last(self) -> tuple[list[float], list[int]]:
        """Returns and lengths in the window, the oldest first."""
        count = self.episodes
        first = count % self.window if count > self.window else 0
        order = [(first + i) % self.window for i in range(min(count, self.window))]
        returns, lengths = self._returns.tolist(), self._lengths.tolist()
        return [returns[i] for i in order], [lengths[i] for i in order]

    def totals(self) -> Tensor:
        """Episodes, and of the window: its size, how many are in it, the sums of their returns and lengths."""
        known = torch.arange(self.window, device=self._count.device) < self._count
        sums = [(values[:-1] * known).sum() for values in (self._returns, self._lengths)]
        size = self._count.new_full((), self.window)
        return torch.stack([number.double() for number in (self._count, size, known.sum(), *sums)])

    def share(self, everywhere: Tensor) -> None:
        """From now on, until the next `update`, show these totals."""
        self.everywhere, self._summary = everywhere, None

    def _read(self) -> tuple[int, bool, float, float]:
        """Episodes, whether the window is full, mean return and length: all that comes to the host, once an update."""
        if self._summary is None:
            totals = self.totals() if self.everywhere is None else self.everywhere
            episodes, size, known, earned, length = totals.tolist()
            self._summary = int(episodes), known == size, earned / max(known, 1), length / max(known, 1)
        return self._summary

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {
            "returns": self._returns,
            "lengths": self._lengths,
            "count": self._count,
            "running_return": self._return,
            "running_length": self._length,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self._summary = self.everywhere = None
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
