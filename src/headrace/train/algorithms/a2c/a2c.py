"""Advantage actor-critic: one update from all of each rollout, with the plain policy gradient.

Source: Mnih et al. 2016 (arXiv:1602.01783), in its synchronous form.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.a2c import settings
from headrace.train.algorithms.compiled_updates import CompiledRollouts
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.rates import Rates
from headrace.train.storage.samples import Samples


class A2C(OnPolicy):
    """A policy that descends ``-mean(A · log π) + value_coef · mean((v - R)²)/2 - entropy_coef · mean(H)``."""

    settings = settings.A2C
    compiled_form = CompiledRollouts

    def update_at_once(self, samples: Samples, rates: Rates, order: Tensor | None) -> Tensor:
        """As `OnPolicy.update_at_once`: at ratios of 1, the gradient of PPO's loss is that of `loss`."""
        measured = self.compiled.epoch(samples, rates._replace(clip_range=1.0), order)
        return torch.cat((measured[:3], torch.zeros(2), measured[5:]))

    def loss(self, batch: Samples, rates: Rates) -> tuple[Tensor, Tensor]:
        """Returns the loss; the policy's part is reported as ``-mean(A)``, the value of PPO's loss for ratios of 1."""
        log_probs, entropies, values = self.evaluate(batch)
        policy_loss = -batch.mean(batch.advantages * log_probs)
        value_loss = batch.mean((values - batch.returns).square()) / 2
        entropy = batch.mean(entropies)
        loss = policy_loss + rates.value_coef * value_loss - rates.entropy_coef * entropy
        none = torch.zeros_like(entropy)
        return loss, torch.stack((-batch.mean(batch.advantages), value_loss, entropy, none, none))
