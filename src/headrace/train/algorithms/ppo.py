"""Proximal policy optimisation: rollouts are learnt from several times, with a clipped loss.

Sources: Schulman et al. 2017 (arXiv:1707.06347); Huang et al. 2022, "The 37 implementation details of PPO".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headrace.train.algorithms.fused.rollouts import FusedPPO
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.ppo_presets import ppo_presets
from headrace.train.algorithms.rates import Rates
from headrace.train.config.fields import WORKERS, Use, setting
from headrace.train.config.registry import Capabilities
from headrace.train.config.rollout import RolloutConfig
from headrace.train.storage.samples import Samples


@dataclass(frozen=True)
class PPOConfig(RolloutConfig):
    """Settings of PPO; with workers, whose rollouts are a little old, advantages are V-trace's."""

    minibatch_size: int = setting(256, "Samples in one gradient step; all of them, if there are fewer.", low=1)
    epochs: int = setting(4, "Passes over a rollout.", low=1)
    clip_range: float = setting(
        0.2, "The probability ratio's gain is clipped outside 1 ± this.", above=0, scheduled=True
    )
    value_clip_range: float | None = setting(
        None, "Clip the value's change in the value loss to ± this; None does not."
    )
    target_kl: float | None = setting(
        None, "Leave the epochs of an iteration once the policy has moved this far (approximate KL); None never does."
    )
    rollout_slots: int = setting(
        1,
        "Rollouts of each sampler that may wait to be learnt from, beside the one that is learnt from. More even out "
        "uneven speeds, and make the policy that acted older; a sampler without a free one waits.",
        low=1,
        group="workers",
        use=Use(ways=(WORKERS,)),
        shared=True,
    )
    rho_clip: float = setting(
        1.0,
        "V-trace's limit of the importance weight of a step. The lower, the more the critic is that of the policy that "
        "acted.",
        above=0,
        group="workers",
        use=Use(ways=(WORKERS,)),
    )
    trace_clip: float = setting(
        1.0,
        "V-trace's limit of the weights that carry what later steps earned back to earlier ones.",
        above=0,
        group="workers",
        use=Use(ways=(WORKERS,)),
    )


class PPO(OnPolicy):
    """A policy that descends ``mean(-min(r·A, clip(r)·A)) + value_coef · mean((v - R)²)/2 - entropy_coef · mean(H)``.

    Here ``r`` is the ratio of an action's probability to that of the policy that acted.
    """

    settings = PPOConfig
    capabilities = Capabilities(workers=True)
    config: PPOConfig
    keeps_params = True
    fused = FusedPPO

    @classmethod
    def presets(cls, task: str, network: str) -> dict[str, Any]:
        return ppo_presets(task, network)

    def _build(self) -> None:
        super()._build()
        self.stops_early = self.config.target_kl is not None

    def loss(self, batch: Samples, rates: Rates) -> tuple[Tensor, Tensor]:
        assert batch.log_probs is not None
        log_probs, entropies, values = self.evaluate(batch)
        log_ratio, clip = log_probs - batch.log_probs, rates.clip_range
        ratio = log_ratio.exp()
        limited = ratio.clamp(1 - clip, 1 + clip)  # type: ignore[arg-type]
        policy_loss = -batch.mean(torch.minimum(ratio * batch.advantages, limited * batch.advantages))
        value_loss = batch.mean(self._squared_errors(values, batch)) / 2
        entropy = batch.mean(entropies)
        loss = policy_loss + rates.value_coef * value_loss - rates.entropy_coef * entropy
        divergence = batch.mean(ratio - 1 - log_ratio)  # Schulman's low-variance estimate
        clipped = batch.mean(((ratio - 1).abs() > clip).float())
        return loss, torch.stack((policy_loss, value_loss, entropy, divergence, clipped))

    def _squared_errors(self, values: Tensor, batch: Samples) -> Tensor:
        """Of the values; or, where that is larger, of values that may change by no more than ``value_clip_range``."""
        errors, clip = (values - batch.returns).square(), self.config.value_clip_range
        if clip is None:
            return errors
        limited = batch.values + (values - batch.values).clamp(-clip, clip)
        return torch.maximum(errors, (limited - batch.returns).square())

    def is_over(self, measured: Tensor) -> bool:
        """Whether the last minibatch's approximate KL is above ``target_kl``, in all processes that train together."""
        assert self.config.target_kl is not None
        kl = measured[3:4].clone()
        if self.optimiser.reduce is not None:
            self.optimiser.reduce(kl, self.optimiser.rows)
        return float(kl) > self.config.target_kl
