"""The interface of hand-written updates of off-policy algorithms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.train.algorithms.rates import UpdateRates
from headrace.train.storage.transitions import Transitions


class FusedUpdate:
    """An update that writes gradients into the optimisers' buffers, without autograd, and makes their steps.

    The arguments of all methods are the transitions of a minibatch and the scheduled settings.

    Args:
        policy: the `headrace.train.algorithms.off_policy.OffPolicy` that it updates.
    """

    def __init__(self, policy: Any):
        self.policy, self.config, self.distribution = policy, policy.config, policy.distribution
        self.network, self.targets, self.optimisers = policy.network, policy.targets, policy.adam

    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the critics; returns the algorithm's ``critic_statistics``, float32."""
        raise NotImplementedError

    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the actor, if there is one; returns ``actor_statistics``, float32."""
        raise NotImplementedError

    def improve_both(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step after the other; returns the statistics of both, float32."""
        return torch.cat((self.improve_critics(batch, rates), self.improve_actor(batch, rates)))
