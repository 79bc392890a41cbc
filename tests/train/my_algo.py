"""REINFORCE with a baseline:  headrace train CartPole-v1 --algo my_algo.py:Reinforce

One update from each rollout, in the direction of ``(R - b) ∇ log π(a | s)``: R is the discounted return from there on,
and b a baseline, what the critic expected.

Source: Williams 1992 (doi:10.1007/BF00992696).
"""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.rates import Rates
from headrace.train.settings.fields import record, setting
from headrace.train.settings.rollouts import ROLLOUTS
from headrace.train.storage.samples import Samples, normalised

# short rollouts of few environments; returns that reach to the ends of episodes
BEGIN = {"num_envs": 16, "num_steps": 16, "learning_rate": 3e-3, "gae_lambda": 1.0, "total_steps": 150_000}
PRESETS = {"default": {"": BEGIN}}


@record("Reinforce")
class Baseline:
    """What is taken off a return."""

    baseline: float = setting(
        1.0, "How much of what the critic expects is taken off a return; 0 is REINFORCE without one.", low=0, high=1
    )


# the settings of every algorithm that learns from rollouts, and one more
REINFORCE = ROLLOUTS.extended(
    Baseline, network_kinds=("mlp", "cnn", "own"), several_agents=False, keeps_masks=False, presets=PRESETS
)


class Reinforce(OnPolicy):
    """A policy that ascends ``mean((R - baseline · v) · log π(a | s))``, with a critic v that is fitted to R."""

    settings = REINFORCE
    statistics = ("policy_loss", "value_loss", "gradient_norm")

    def loss(self, batch: Samples, rates: Rates) -> tuple[Tensor, Tensor]:
        """The loss of a rollout, and its statistics; ``rates`` are the settings that may change with the step."""
        log_probs, entropies, values = self.evaluate(batch)
        gain = batch.returns - self.config.baseline * batch.values
        if self.config.normalise_advantages:
            gain = normalised(gain, batch.weights, self.process_group)
        policy_loss = -batch.mean(gain * log_probs)
        value_loss = batch.mean((values - batch.returns).square()) / 2
        loss = policy_loss + rates.value_coef * value_loss - rates.entropy_coef * batch.mean(entropies)
        return loss, torch.stack((policy_loss, value_loss))
