"""DDPG's update by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.fused.protocol import FusedHalves
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.storage.device_replay import Transitions


class FusedDDPG(FusedHalves):
    """The update of `headrace.train.algorithms.ddpg.DDPG`."""

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``mean((Q(s, a) - y)²)`` with ``y = r + discount · Q'(s', μ'(s'))``."""
        critic = self.network.critic
        after = self.targets.critic(batch.following, self.targets.actor(batch.following)).squeeze(0)
        target = torch.addcmul(batch.rewards, batch.discounts, after)
        saved = critic.activations(torch.cat((batch.inputs, batch.actions), 1))
        error = saved[-1].squeeze(1) - target
        critic.backward_into_gradients(saved, (2 / len(error)) * error.unsqueeze(1))
        norm = self.optimisers["critic"].step(rates.critic_learning_rate, rates.max_grad_norm)
        return torch.stack((error.square().mean(), saved[-1].mean(), norm))

    @torch.inference_mode()
    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``-mean(Q(s, μ(s)))``."""
        actor, critic = self.network.actor, self.network.critic
        actor_saved = actor.activations(batch.inputs)
        saved = critic.activations(torch.cat((batch.inputs, actor_saved[-1]), 1))
        d_input = critic.input_gradient(saved, torch.full_like(saved[-1], -1 / len(batch.rewards)))
        actor.backward_into_gradients(actor_saved, d_input[:, batch.inputs.shape[1] :])
        norm = self.optimisers["actor"].step(rates.learning_rate, rates.max_grad_norm)
        return torch.stack((-saved[-1].mean(), norm))
