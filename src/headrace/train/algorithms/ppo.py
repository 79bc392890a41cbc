"""Proximal policy optimisation: rollouts are learnt from several times, with a clipped loss.

Sources: Schulman et al. 2017 (arXiv:1707.06347); Huang et al. 2022, "The 37 implementation details of PPO".
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.rates import Rates
from headrace.train.storage.samples import Samples


class PPO(OnPolicy):
    """A policy that descends ``mean(-min(r·A, clip(r)·A)) + value_coef · mean((v - R)²)/2 - entropy_coef · mean(H)``.

    Here ``r`` is the ratio of an action's probability to that of the policy that acted.
    """

    keeps_params = True

    def _build(self) -> None:
        super()._build()
        self.stops_early = self.config.target_kl is not None

    def surrogate(
        self, log_prob: Tensor, batch: Samples, rates: Rates
    ) -> tuple[Tensor, Callable[[], tuple[Tensor, ...]]]:
        """The slope of ``min(r·A, clip(r)·A)``.

        And a function that answers minus that minimum, the estimated KL divergence from the policy that acted, and
        whether the ratio is clipped, each float32[B].
        """
        assert batch.log_probs is not None
        gain, clip = batch.advantages, rates.clip_range
        log_ratio = log_prob - batch.log_probs
        ratio = log_ratio.exp()
        free, clipped = gain * ratio, gain * torch.clamp(ratio, 1 - clip, 1 + clip)  # type: ignore

        def statistics() -> tuple[Tensor, ...]:
            divergence = ratio - 1 - log_ratio  # Schulman's low-variance estimate
            return -torch.minimum(free, clipped), divergence, ((ratio - 1).abs() > clip).float()

        # where the clipped term is the smaller one, the loss does not depend on the policy
        return torch.where(free <= clipped, free, 0.0), statistics

    def value_slope(self, values: Tensor, batch: Samples) -> tuple[Tensor, Callable[[], Tensor]]:
        clip = self.config.value_clip_range
        if clip is None:
            return super().value_slope(values, batch)
        # the larger of the two squared errors counts; clipped away, the value's gradient is zero
        error, change = values - batch.returns, values - batch.values
        limited = change.clamp(-clip, clip)
        limited_error = batch.values + limited - batch.returns
        larger = error.square() >= limited_error.square()
        slope = torch.where(larger | (change == limited), error, 0.0)
        return slope, lambda: torch.where(larger, error, limited_error).square() / 2

    def is_over(self, measured: Tensor) -> bool:
        """Whether the last minibatch's approximate KL is above ``target_kl``, in all processes that train together."""
        assert self.config.target_kl is not None
        kl = measured[3:4].clone()
        if self.optimiser.reduce is not None:
            self.optimiser.reduce(kl, self.optimiser.rows)
        return float(kl) > self.config.target_kl
