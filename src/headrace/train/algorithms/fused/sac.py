"""SAC's update by hand: the actor on both observations at once, both critics as one batched product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.train.algorithms.fused.protocol import FusedUpdate
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.layers import gradient_of
from headrace.train.storage.transitions import Transitions


class FusedSAC(FusedUpdate):
    """The update of `headrace.train.algorithms.sac.SAC`."""

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descends ``½ Σ mean((Q(s, a) - y)²)`` over both, ``y = r + discount · (min Q'(s', a') - α log π(a'|s'))``."""
        params = self.network.actor(batch.next_observations)
        next_actions, next_log_prob, _ = self.distribution.sample_with_log_prob(params, self.policy.noise(len(params)))
        return self._improve_critics(batch, rates, next_actions, next_log_prob)

    @torch.inference_mode()
    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descends ``mean(α log π(a|s) - min Q(s, a))``; with α, ``-mean(log π + target entropy) · log α``."""
        saved = self.network.actor.activations(batch.inputs)
        drawn = self.distribution.sample_with_log_prob(saved[-1], self.policy.noise(len(batch.inputs)))
        return self._improve_actor(batch, rates, saved, drawn)

    @torch.inference_mode()
    def improve_both(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Updates critics and actor; one forward pass of the actor serves both, as it is the same actor."""
        rows = len(batch.inputs)
        saved = self.network.actor.activations(torch.cat((batch.inputs, batch.next_observations)))
        drawn = self.distribution.sample_with_log_prob(saved[-1], self.policy.noise(2 * rows))
        (actions, next_actions), (log_prob, next_log_prob) = (both.split(rows) for both in drawn[:2])
        critics = self._improve_critics(batch, rates, next_actions, next_log_prob)
        drawn = actions, log_prob, tuple(both[:rows] for both in drawn[2])
        return torch.cat((critics, self._improve_actor(batch, rates, [both[:rows] for both in saved], drawn)))

    def _improve_critics(
        self, batch: Transitions, rates: UpdateRates, next_actions: Tensor, next_log_prob: Tensor
    ) -> Tensor:
        """Updates the critics, as `improve_critics`, given a' and log π(a'|s')."""
        critic, target_critic = self.network.critic, self.targets.critic
        next_q = target_critic(batch.next_observations, next_actions).amin(0)
        next_q.addcmul_(self.network.temperature.log.exp(), next_log_prob, value=-1.0)
        target = torch.addcmul(batch.rewards, batch.discounts, next_q)
        loss, mean = critic.fit_into_gradients(critic.joined(batch.inputs, batch.actions), target, batch.weights)
        self.optimisers["critic"].step_unclipped(rates.critic_learning_rate)
        return torch.stack((loss, mean))

    def _improve_actor(self, batch: Transitions, rates: UpdateRates, saved: list[Tensor], drawn: Any) -> Tensor:
        """Updates the actor, as `improve_actor`, given its activations, a, log π(a|s), and data for their gradient."""
        actor, critic, rows = self.network.actor, self.network.critic, len(batch.inputs)
        actions, log_prob, chosen = drawn
        values, critic_saved = critic.forward_saving(critic.joined(batch.inputs, actions))
        lower = values.amin(0)
        d_values = (values == lower) * (-1 / rows)
        d_actions = critic.input_gradient(critic_saved, d_values, batch.inputs.shape[1])
        log_temperature = self.network.temperature.log
        temperature = log_temperature.exp()
        actor.backward_into_gradients(saved, self.distribution.gradient(chosen, d_actions, temperature * (1 / rows)))
        self.optimisers["actor"].step_unclipped(rates.learning_rate)
        entropy = log_prob.mean(0, keepdim=True).neg_()
        torch.sub(entropy, self.policy.target_entropy, out=gradient_of(log_temperature))
        self.optimisers["temperature"].step_unclipped(rates.learning_rate)
        loss = torch.addcmul(lower.mean(), temperature, entropy).neg_()
        return torch.cat((loss, entropy, temperature))
