"""A trained policy as a `torch.nn.Module`, from observations of environments to action parameters and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import forbidden, masked


class PolicyModule(nn.Module):
    """A policy's network with the encoding of its inputs: one-hot encoding, flattening, normalisation.

    Args:
        policy: the policy, with which the module shares its parameters.

    Attributes:
        distribution: the action distribution: ``mode(params)`` and ``sample(params, noise)`` choose actions, and
            ``to_env(actions)`` converts them for environments.
        memory_size: columns of a recurrent network's memory, which is zero at the start of an episode; 0 for other
            networks.
        heads: the number of actions of each masked head; empty for no action masks.
    """

    def __init__(self, policy: Policy):
        super().__init__()
        encoder = policy.encoder
        self.network: Any = policy.network
        self.distribution: Any = policy.distribution
        self.memory_size, self.heads = policy.memory_size, policy.heads
        self._worth = policy.worth
        self._image, self._size = encoder.image, encoder.shape[0]
        self._categories, self._first = encoder.categories, encoder.first
        normaliser, self._raw_dtype = encoder.normaliser, encoder.raw_dtype
        self.register_buffer("mean", None if normaliser is None else normaliser.mean)
        self.register_buffer("scale", None if normaliser is None else normaliser.scale)

    def forward(
        self, observations: Tensor, memory: Tensor | None = None, action_mask: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Returns action parameters [B, size], values float32[B], and a recurrent network's new memory [B, H].

        Args:
            observations: observations of B agents, [B, *shape], as environments return them.
            memory: a recurrent network's memory before the step, float32[B, H]; zeros by default.
            action_mask: ``info["action_mask"]``, [B, K]; 0 for forbidden actions, whose probability becomes 0; their
                values, of DQN and PQN, are lowered by 1e9.

        Returns:
            Parameters are logits (or, for DQN and PQN, values) of discrete actions, or means of continuous ones,
            followed by their log standard deviations if the policy has some. Values are expected returns, in units of
            the environments' rewards: the value of an actor-critic, the value of the best action for DQN and PQN, the
            smallest of the critics' values for SAC and the other algorithms with critics of actions.
        """
        inputs = self.inputs(observations)
        after: Sequence[Tensor] = ()
        if self.memory_size:
            before = inputs.new_zeros(inputs.shape[0], self.memory_size) if memory is None else memory
            params, values, *after = self.network.step(inputs, before)
        else:
            params, values = self.network(inputs)
        if action_mask is not None and self.heads:
            params = masked(params, forbidden(action_mask, self.heads))
        return params, self._worth(inputs, params, values), *after

    def inputs(self, observations: Tensor) -> Tensor:
        """Returns the network's inputs: images unchanged, others as float32[B, D], normalised as by the policy."""
        if self._image:
            return observations
        if self._categories:
            return F.one_hot(observations.to(torch.int64) - self._first, self._categories).to(torch.float32)
        flat = observations.to(self._raw_dtype).reshape(-1, self._size)
        if self.mean is None:
            return flat
        return ((flat - self.mean).to(torch.float32) * self.scale).clamp(-10.0, 10.0)  # type: ignore[operator]
