"""DQN's update by hand, over vectors and images."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.fused.protocol import FusedUpdate
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.storage.transitions import Transitions


class FusedDQN(FusedUpdate):
    """The update of `headrace.train.algorithms.dqn.DQN`, which has no actor."""

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descends ``mean(weight · loss(Q(s, a) - y))``; returns ``critic_statistics``, float32[3]."""
        q = self.network.q
        values, saved = q.forward_saving(batch.inputs)
        actions = batch.actions.view(-1, 1).to(torch.int64)
        error = values.gather(1, actions).squeeze(1) - self.policy.target_of(batch)
        self.policy.note_errors(error)
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
