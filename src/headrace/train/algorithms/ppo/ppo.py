"""Proximal policy optimisation: several epochs over each rollout, with a clipped loss.

Sources: Schulman et al. 2017 (arXiv:1707.06347); Huang et al. 2022, "The 37 implementation details of PPO".
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from headrace.train.algorithms.compiled_updates import CompiledRollouts
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.algorithms.ppo import settings
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.mirroring import Mirroring
from headrace.train.storage.samples import Samples

FACTOR, LEAST, MOST = 1.5, 1e-5, 1e-2
"""by how much an adaptive learning rate changes after a rollout, and its bounds, as rsl_rl has them"""


class PPO(OnPolicy):
    """A policy that descends ``mean(-min(r·A, clip(r)·A)) + value_coef · mean((v - R)²)/2 - entropy_coef · mean(H)``.

    Here ``r`` is the ratio of an action's probability to that of the policy that acted.

    Attributes:
        rate: the learning rate, where it is adapted to the KL divergence; otherwise None.
    """

    settings = settings.PPO
    compiled_form = CompiledRollouts
    keeps_params = True

    def _build(self) -> None:
        super()._build()
        self.stops_early = self.config.target_kl is not None
        if self.config.mirror and not self.config.frozen:
            self.mirroring = Mirroring(self.agent_group, self.device)
        first = self.config.learning_rate if self.config.load is None else LEAST  # what was learnt bears no higher one
        self.rate: float | None = None if self.config.target_kl_rate is None else first

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
        taken = slice(None if self.mirroring is None else len(ratio) // 2)  # mirrored ones follow
        divergence = batch.mean(ratio - 1 - log_ratio, taken)  # Schulman's low-variance estimate
        clipped = batch.mean(((ratio - 1).abs() > clip).float(), taken)
        return loss, torch.stack((policy_loss, value_loss, entropy, divergence, clipped))

    def update_at_once(self, samples: Samples, rates: Rates, order: Tensor | None) -> Tensor:
        return self.compiled.epoch(samples, rates, order, self.config.value_clip_range)

    def _squared_errors(self, values: Tensor, batch: Samples) -> Tensor:
        """Returns squared errors of the values, or where larger of clipped values, float32[B]."""
        errors, clip = (values - batch.returns).square(), self.config.value_clip_range
        if clip is None:
            return errors
        limited = batch.values + (values - batch.values).clamp(-clip, clip)
        return torch.maximum(errors, (limited - batch.returns).square())

    def is_over(self, measured: Tensor) -> bool:
        """Returns whether the last minibatch's approximate KL is above ``target_kl``, the same in all processes."""
        assert self.config.target_kl is not None
        return self._divergence(measured) > self.config.target_kl

    def _divergence(self, measured: Tensor) -> float:
        kl = measured[3:4].clone()
        if self.process_group is not None:
            self.process_group.average(kl, self.optimiser.rows)
        return float(kl)

    # -- an adaptive learning rate ---------------------------------------------------------------

    @property
    def _adapts(self) -> bool:
        return self.rate is not None and "learning_rate" not in self.config.schedules

    @property
    def rate_changes(self) -> bool:
        return self._adapts or super().rate_changes

    def rates(self, step: int) -> Rates:
        rates = super().rates(step)
        return rates._replace(learning_rate=self.rate) if self._adapts else rates

    def adapt(self, measured: Tensor) -> None:
        target, rate = self.config.target_kl_rate, self.rate
        if rate is None or not self._adapts:
            return
        kl = self._divergence(measured)
        if kl > 2 * target:
            self.rate = max(LEAST, rate / FACTOR)
        elif kl < target / 2:
            self.rate = min(MOST, rate * FACTOR)

    def state(self) -> dict[str, Tensor]:
        kept = {} if self.rate is None else {self.prefix("rate"): torch.tensor(self.rate, dtype=torch.float64)}
        return super().state() | kept

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        super().load_state(saved)
        if self.rate is not None:
            self.rate = float(saved[self.prefix("rate")])
