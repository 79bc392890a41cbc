"""DQN's update by hand, over vectors and images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from headrace.train.algorithms.fused.protocol import Parts, SequentialFusedUpdate
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.storage.transitions import Transitions


class FusedDQN(SequentialFusedUpdate):
    """The update of `headrace.train.algorithms.dqn.DQN`, which has no actor.

    Args:
        parts: the modules and optimisers of the policy.
        target_of: returns the targets of a batch, float32[B].
        note: called with the batch's errors, float32[B].
    """

    def __init__(self, parts: Parts, target_of: Callable[[Transitions], Tensor], note: Callable[[Tensor], None]):
        super().__init__(parts)
        self.target_of, self.note = target_of, note

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descends ``mean(weight · loss(Q(s, a) - y))``; returns ``critic_statistics``, float32[3]."""
        q = self.network.q
        values, saved = q.forward_saving(batch.inputs)
        actions = batch.actions.view(-1, 1).to(torch.int64)
        error = values.gather(1, actions).squeeze(1) - self.target_of(batch)
        self.note(error)
        if self.config.loss == "huber":
            slope = error.clamp(-1.0, 1.0)
            loss = slope * (error - slope / 2)
        else:
            slope, loss = 2 * error, error.square()
        if batch.weights is not None:
            slope, loss = slope * batch.weights, loss * batch.weights
        d_values = torch.zeros_like(values).scatter_(1, actions, (slope / len(error)).unsqueeze(1))
        q.backward_into_gradients(saved, d_values)
        norm = self.optimisers["q"].step(rates.learning_rate, rates.max_grad_norm)
        return torch.stack((loss.mean(), values.mean(), norm))
