"""TD3's update by hand: both critics as one batched product."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.fused.protocol import FusedUpdate
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.storage.transitions import Transitions


class FusedTD3(FusedUpdate):
    """The update of `headrace.train.algorithms.td3.TD3`."""

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descends ``½ Σ mean((Q(s, a) - y)²)`` over both, ``y = r + discount · min Q'(s', a')``.

        Here ``a'`` is ``μ'(s')`` plus clipped noise, and is also clipped.
        """
        config, critic, target_critic = self.config, self.network.critic, self.targets.critic
        noise = self.policy.noise(len(batch.rewards)).mul_(config.target_noise)
        noise.clamp_(-config.target_noise_clip, config.target_noise_clip)
        next_actions = noise.add_(self.targets.actor(batch.next_observations)).clamp_(-1.0, 1.0)
        next_q = target_critic(batch.next_observations, next_actions).amin(0)
        target = torch.addcmul(batch.rewards, batch.discounts, next_q)
        loss, mean = critic.fit_into_gradients(critic.joined(batch.inputs, batch.actions), target, batch.weights)
        self.optimisers["critic"].step_unclipped(rates.critic_learning_rate)
        return torch.stack((loss, mean))

    @torch.inference_mode()
    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descends ``-mean(Q₁(s, μ(s)))`` of the first critic."""
        actor, critic = self.network.actor, self.network.critic
        saved = actor.activations(batch.inputs)
        values, critic_saved = critic.forward_saving(critic.joined(batch.inputs, saved[-1]), critics=1)
        d_values = torch.full_like(values, -1 / len(batch.inputs))
        actor.backward_into_gradients(saved, critic.input_gradient(critic_saved, d_values, batch.inputs.shape[1]))
        self.optimisers["actor"].step_unclipped(rates.learning_rate)
        return values.mean(1).neg_()
