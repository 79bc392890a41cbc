"""What off-policy algorithms with continuous actions have in common: an actor, and critics of what it does."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class ActorCritic(nn.Module):
    """An actor that maps inputs [B, D] to action parameters [B, …], and critics of inputs and actions together."""

    actor: Any
    critic: Any

    def __init__(self, actor: nn.Module, critic: nn.Module):
        super().__init__()
        self.actor, self.critic = actor, critic

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Action parameters for inputs, and zeros in place of values: collecting needs none."""
        return self.actor(x), x.new_zeros(len(x))
