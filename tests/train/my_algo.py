"""REINFORCE with a baseline:  headrace train CartPole-v1 --algo my_algo.py:Reinforce

One update from each rollout, in the direction of ``(R - b) ∇ log π(a | s)``: R is the discounted return from there on,
and b a baseline, what the critic expected.

Source: Williams 1992 (doi:10.1007/BF00992696).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.rates import Rates
from headrace.train.config.fields import setting
from headrace.train.config.rollout import RolloutConfig
from headrace.train.storage.samples import Samples, normalised

# short rollouts of few environments; returns that reach to the ends of episodes
BEGIN = {"num_envs": 16, "num_steps": 16, "learning_rate": 3e-3, "gae_lambda": 1.0, "total_steps": 150_000}
PRESETS = {"default": {"": BEGIN}}


@dataclass(frozen=True)
class ReinforceConfig(RolloutConfig):
    """The settings of every algorithm that learns from rollouts, and one more."""

    network_kinds = ("mlp", "cnn", "own")
    several_agents = keeps_masks = False
    presets = PRESETS

    baseline: float = setting(
        1.0, "How much of what the critic expects is taken off a return; 0 is REINFORCE without one.", low=0, high=1
    )


class Reinforce(OnPolicy):
    """A policy that ascends ``mean((R - baseline · v) · log π(a | s))``, with a critic v that is fitted to R."""

    settings = ReinforceConfig
    config: ReinforceConfig
    statistics = ("policy_loss", "value_loss", "gradient_norm")

    def learn(self, samples: Samples, step: int, generator: torch.Generator) -> None:
        """One update from a rollout, ``step`` agent steps into the run."""
        if self.config.frozen:
            return
        rates = Rates.of(self.config, step)
        gain = samples.returns - self.config.baseline * samples.values
        if self.config.normalise_advantages:
            gain = normalised(gain, process_group=self.process_group)
        params, values = self.network(samples.inputs)
        log_prob, entropy, _ = self.distribution.evaluate(params, samples.actions)
        policy_loss = -(gain * log_prob).mean()
        value_loss = (values - samples.returns).square().mean() / 2
        loss = policy_loss + rates.value_coef * value_loss - rates.entropy_coef * entropy.mean()
        self.optimiser.gradient.zero_()
        loss.backward()
        norm = self.optimiser.step(rates.learning_rate, rates.max_grad_norm)
        self.losses = torch.stack((policy_loss.detach(), value_loss.detach(), norm))
