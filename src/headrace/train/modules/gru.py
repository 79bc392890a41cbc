"""A recurrent actor-critic, for partially observable tasks."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from headrace.train.modules.layers import initialised, with_log_std


class GRU(nn.Module):
    """Dense layers, a gated recurrent unit (Cho et al. 2014, arXiv:1406.1078), a policy head and a value head.

    Attributes:
        memory_size: columns H of the memory, which is zero at the start of an episode.
    """

    def __init__(
        self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, log_std: nn.Parameter | None
    ):
        super().__init__()
        sizes = (inputs, *hidden[:-1])
        layers: list[nn.Module] = []
        for below, above in itertools.pairwise(sizes):
            layers += [initialised(nn.Linear(below, above)), nn.ReLU() if activation == "relu" else nn.Tanh()]
        self.encoder = nn.Sequential(*layers)
        self.memory_size = hidden[-1]
        self.cell = nn.GRUCell(sizes[-1], self.memory_size)
        for name, parameter in self.cell.named_parameters():
            nn.init.orthogonal_(parameter) if "weight" in name else nn.init.zeros_(parameter)
        self.policy = initialised(nn.Linear(self.memory_size, outputs), 0.01)
        self.value = initialised(nn.Linear(self.memory_size, 1), 1.0)
        self.log_std = log_std

    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns action parameters [B, size], values [B] and the new memory [B, H] of inputs [B, D] and memory."""
        memory = self.cell(self.encoder(x), memory)
        return *self._heads(memory), memory

    def unroll(self, x: Tensor, memory: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Returns action parameters [T·B, size] and values [T·B] of T steps.

        Args:
            x: inputs float32[T·B, D], step by step.
            memory: the memory before the first step, float32[B, H].
            starts: whether a step is the first of an episode, before which the memory is set to zero, bool[T·B].
        """
        columns = len(memory)
        kept = (~starts).float().view(-1, columns, 1)
        features = self.encoder(x).view(-1, columns, self.cell.input_size)
        memories = []
        for step, keep in zip(features, kept, strict=True):
            memory = self.cell(step, memory * keep)
            memories.append(memory)
        return self._heads(torch.cat(memories))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns action parameters [B, size] and values [B] of the first step of an episode, with zero memory."""
        return self.step(x, x.new_zeros(x.shape[0], self.memory_size))[:2]

    def _heads(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return with_log_std(self.policy(memory), self.log_std), self.value(memory).squeeze(1)
