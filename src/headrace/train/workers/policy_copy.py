"""Copies of a policy's weights and statistics of observations in other processes."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.collect.fitting import agent_groups
from headrace.train.play.agent import frozen_policy
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.settings.config import Config


class PolicyCopy:
    """One process's copy of the actor of a policy.

    Attributes:
        vector: the weights with which the policy acts, float32[P].
    """

    def __init__(self, policy: Policy):
        self.policy, self._normalisers = policy, list(policy.normalisers.values())
        self.vector = policy.actor_parameters

    def buffer(self, extras: int = 0) -> WeightBuffer:
        """Returns a new weight buffer for the vector and the statistics, and ``extras`` further numbers."""
        return WeightBuffer(self.vector.numel(), extras + len(self.known()))

    def known(self) -> Tensor:
        """Returns the statistics of observations and values, float64[E] on the CPU; E is 0 if there are none."""
        packed = [normaliser.pack().cpu() for normaliser in self._normalisers]
        return torch.cat(packed) if packed else torch.zeros(0, dtype=torch.float64)

    def take(self, vector: Tensor, known: Tensor) -> None:
        """Loads weights, float32[P], and statistics, float64[E]."""
        self.vector.copy_(vector)
        self._unpack(known)

    def _unpack(self, known: Tensor) -> None:
        sizes = [2 * normaliser.mean.numel() + 1 for normaliser in self._normalisers]
        for normaliser, packed in zip(self._normalisers, known.split(sizes), strict=True):
            normaliser.unpack(packed)

    def publish(self, weights: WeightBuffer, extras: Tensor | None = None) -> int:
        """Publishes the weights and statistics, and ``extras``, float64[…]; returns the version."""
        return weights.publish(self.vector, self.known() if extras is None else torch.cat((extras, self.known())))

    def read(self, weights: WeightBuffer) -> int | None:
        """Loads the newest version; returns its number, or None if there is no newer one."""
        if not self._normalisers:
            return weights.read(self.vector)
        known = self.known()
        version = weights.read(self.vector, known)
        if version is not None:
            self._unpack(known)
        return version


def acting_policy(config: Config) -> Policy:
    """Returns the only policy of a run with samplers, which acts and does not learn, on the CPU."""
    spec = config.build().spec
    (agent_group,) = agent_groups(config, spec).values()
    return frozen_policy("", config, agent_group)
