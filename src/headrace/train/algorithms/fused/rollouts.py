"""Hand-written gradients of the losses of PPO and A2C; an `MLP` continues them from its outputs to its parameters."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headrace.train.algorithms.rates import Rates
from headrace.train.config.settings import Config
from headrace.train.modules.action_masks import masked
from headrace.train.modules.distributions import Distribution
from headrace.train.modules.mlp import MLP
from headrace.train.storage.samples import Samples, pick

CHUNK = 8192  # rows for each of torch's threads, so that activations stay in its cache


class FusedRollouts:
    """The gradient of a loss of log-probabilities, values and entropies, computed in chunks of a minibatch."""

    def __init__(self, distribution: Distribution, config: Config):
        self.distribution, self.config = distribution, config

    @torch.inference_mode()
    def backward(self, network: MLP, batch: Samples, rates: Rates, measure: bool) -> Tensor | None:
        """Overwrites every parameter's ``.grad`` with the gradient of the loss of one minibatch.

        Returns:
            The sum of `loss_gradient`'s statistics over all chunks; None unless ``measure``.
        """
        count, statistics = len(batch.returns), None
        share = 1 / count if batch.weights is None else batch.weights / batch.weights.sum().clamp(min=1)
        size = CHUNK * torch.get_num_threads() if batch.returns.device.type == "cpu" else count
        for start in range(0, count, size):
            rows = slice(start, start + size)
            part = batch if size >= count else pick(batch, rows)
            mine = share[rows] if isinstance(share, Tensor) else share
            params, values, saved = network.forward_saving(part.inputs)
            d_params, d_values, measured = self.loss_gradient(params, values, part, rates, mine, measure)
            network.backward_into_gradients(saved, d_params, d_values, add=start > 0)
            if measured is not None:
                statistics = measured if statistics is None else statistics + measured
        return statistics

    def loss_gradient(
        self, params: Tensor, values: Tensor, batch: Samples, rates: Rates, share: float | Tensor, measure: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the gradient of the loss with respect to the network's outputs.

        Args:
            params: parameters of the action distributions, float32[B, size].
            values: the critic's values, float32[B].
            batch: the samples of a chunk of a minibatch.
            share: weight of each row in the mean: a number, or float32[B].

        Returns:
            d loss/d params [B, size], d loss/d values [B], and the chunk's contribution to the statistics
            [policy_loss, value_loss, entropy, approx_kl, clip_fraction], float32[5], or None unless ``measure``.
        """
        if batch.forbidden is not None:
            params = masked(params, batch.forbidden)
        log_prob, entropy, saved = self.distribution.evaluate(params, batch.actions)
        slope, policy_statistics = self.surrogate(log_prob, batch, rates)
        d_params = self.distribution.gradient(saved, slope * -share, -rates.entropy_coef * share)
        d_values, value_loss = self.value_slope(values, batch)
        d_values = d_values * (rates.value_coef * share)
        if not measure:
            return d_params, d_values, None
        policy_loss, *moved = policy_statistics()
        statistics = (torch.stack((policy_loss, value_loss(), entropy, *moved)) * share).sum(1)
        return d_params, d_values, statistics if moved else F.pad(statistics, (0, 2))

    def surrogate(
        self, log_prob: Tensor, batch: Samples, rates: Rates
    ) -> tuple[Tensor, Callable[[], tuple[Tensor, ...]]]:
        """Returns the derivative of the policy's objective with respect to the log-probability.

        Args:
            log_prob: log-probabilities of the actions, float32[B].

        Returns:
            The derivative, float32[B], and a function that returns the negative objective, float32[B], and further
            statistics, float32[B] each.
        """
        raise NotImplementedError

    def value_slope(self, values: Tensor, batch: Samples) -> tuple[Tensor, Callable[[], Tensor]]:
        """Returns the derivative of the value loss ``(v - R)²/2``, float32[B], and a function that returns the loss.

        Args:
            values: the critic's values, float32[B].
        """
        error = values - batch.returns
        return error, lambda: error.square() / 2


class FusedPPO(FusedRollouts):
    """The gradient of `headrace.train.algorithms.ppo.PPO.loss`."""

    def surrogate(
        self, log_prob: Tensor, batch: Samples, rates: Rates
    ) -> tuple[Tensor, Callable[[], tuple[Tensor, ...]]]:
        """Returns the derivative of ``min(r·A, clip(r)·A)``.

        The second result is a function that returns the negative minimum, the estimated KL divergence from the policy
        that acted, and whether the ratio is clipped, each float32[B].
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


class FusedA2C(FusedRollouts):
    """The gradient of `headrace.train.algorithms.a2c.A2C.loss`."""

    def surrogate(
        self, log_prob: Tensor, batch: Samples, rates: Rates
    ) -> tuple[Tensor, Callable[[], tuple[Tensor, ...]]]:
        """Returns the derivative of ``A · log π``; the loss is reported as ``-mean(A)``, as PPO's for ratios of 1."""
        gain = batch.advantages
        return gain, lambda: (-gain,)
