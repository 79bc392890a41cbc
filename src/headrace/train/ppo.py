"""Proximal policy optimisation: advantages, the clipped loss, and one iteration's updates.

The loss is differentiated by hand down to the network's outputs (`loss_gradient`); from
there the network's own backward, or autograd, carries on. Nothing here waits for the
device: all statistics stay tensors until the caller wants to print them.

Sources: Schulman et al. 2017 (arXiv:1707.06347); Schulman et al. 2016 for GAE
(arXiv:1506.02438); Pardo et al. 2018 for time limits (arXiv:1712.00378); Huang et al. 2022,
"The 37 implementation details of PPO".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headrace.train.config import Config
from headrace.train.distributions import Distribution
from headrace.train.networks import MLP
from headrace.train.optimiser import FlatAdam

STATISTICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")


@dataclass(frozen=True)
class Samples:
    """What one rollout gives to learn from, flattened to M = T·N rows.

    Attributes:
        inputs: network inputs [M, …].
        actions: [M, *action_shape].
        log_probs: log-probabilities of the actions when they were taken, float32[M].
        advantages, returns, values: float32[M]; values are the critic's when the actions were taken.
        rows: int64[K], the rows to learn from; None for all. Agents that had left the game have none.
    """

    inputs: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor
    rows: Tensor | None = None


def advantages(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_values: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Generalised advantage estimates float32[T, N], exact at the ends of episodes.

    A terminated episode is worth nothing afterwards; a truncated one is worth the value of its
    *final* observation, which is not the row that follows it (that one starts the next episode).

    Args:
        rewards: float32[T, N].
        values: float32[T + 1, N]; row T belongs to the observation after the last step.
        terminated, truncated: bool[T, N]; where both, terminated counts.
        final_values: float32[T, N]; read only where truncated.
        gamma, gae_lambda: discount and decay.
    """
    steps = len(rewards)
    after = torch.where(truncated, final_values, values[1:]).masked_fill_(terminated, 0.0)
    result = torch.addcmul(rewards - values[:-1], after, torch.full_like(after, gamma))
    decay = (~(terminated | truncated)).float().mul_(gamma * gae_lambda)
    rows, decays = result.unbind(0), decay.unbind(0)
    for t in range(steps - 2, -1, -1):
        rows[t].addcmul_(decays[t], rows[t + 1])
    return result


def loss_gradient(
    distribution: Distribution,
    config: Config,
    params: Tensor,
    values: Tensor,
    batch: Samples,
    measure: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradient of the PPO loss with respect to the network's outputs.

    The loss is ``mean(-min(r·A, clip(r)·A)) + value_coef · mean((v - R)²)/2 - entropy_coef · mean(H)``.

    Returns:
        d loss/d params [B, size], d loss/d values [B], and if ``measure``
        [policy_loss, value_loss, entropy, approx_kl, clip_fraction] of this batch as one tensor.
    """
    count, clip, gain = len(values), config.clip_range, batch.advantages
    log_prob, entropy, saved = distribution.evaluate(params, batch.actions)
    log_ratio = log_prob - batch.log_probs
    ratio = log_ratio.exp()
    free, clipped = gain * ratio, gain * ratio.clamp(1 - clip, 1 + clip)
    # where the clipped term is the smaller one, the loss does not depend on the policy
    d_log_prob = torch.where(free <= clipped, free, 0.0).mul_(-1 / count)
    d_params = distribution.gradient(saved, d_log_prob, -config.entropy_coef / count)

    error = values - batch.returns
    d_values = error
    if config.value_clip_range is not None:
        # the larger of the two squared errors counts; clipped away, the value's gradient is zero
        moved = values - batch.values
        limited = moved.clamp(-config.value_clip_range, config.value_clip_range)
        limited_error = batch.values + limited - batch.returns
        keep = (error.square() >= limited_error.square()) | (moved == limited)
        d_values = torch.where(keep, error, 0.0)
        error = torch.where(error.square() >= limited_error.square(), error, limited_error)
    d_values = d_values * (config.value_coef / count)

    if not measure:
        return d_params, d_values, None
    statistics = (
        -torch.minimum(free, clipped).mean(),
        error.square().mean() / 2,
        entropy.mean(),
        (ratio - 1 - log_ratio).mean(),  # Schulman's low-variance estimate of the KL divergence
        ((ratio - 1).abs() > clip).float().mean(),
    )
    return d_params, d_values, torch.stack(statistics)


def backward(
    network: nn.Module,
    optimiser: FlatAdam,
    distribution: Distribution,
    config: Config,
    batch: Samples,
    measure: bool,
) -> Tensor | None:
    """Fill the gradient buffer for one minibatch; returns `loss_gradient`'s statistics."""
    if isinstance(network, MLP):
        with torch.inference_mode():
            params, values, saved = network.forward_saving(batch.inputs)
            d_params, d_values, statistics = loss_gradient(distribution, config, params, values, batch, measure)
            network.backward_into_gradients(saved, d_params, d_values)
        return statistics
    optimiser.gradient.zero_()
    params, values = network(batch.inputs)
    with torch.no_grad():
        d_params, d_values, statistics = loss_gradient(distribution, config, params, values, batch, measure)
    torch.autograd.backward((params, values), (d_params, d_values))
    return statistics


def update(
    network: nn.Module,
    optimiser: FlatAdam,
    distribution: Distribution,
    config: Config,
    samples: Samples,
    learning_rate: float,
    generator: torch.Generator,
) -> Tensor:
    """All epochs over one rollout. Rows that do not fill a last minibatch sit out that epoch.

    Advantage actor-critic (``algo="a2c"``) is one epoch of one minibatch: the ratio is then 1 everywhere, and
    the gradient is that of ``-mean(A · log π)`` (Mnih et al. 2016, arXiv:1602.01783).

    Returns:
        `STATISTICS` averaged over the last epoch that ran, as one tensor on the network's device.
    """
    measured: list[Tensor] = []
    epochs = 1 if config.algo == "a2c" else config.epochs
    for epoch in range(epochs):
        measure = config.target_kl is not None or epoch == epochs - 1
        measured.clear()
        for batch in minibatches(samples, config, generator):
            statistics = backward(network, optimiser, distribution, config, batch, measure)
            norm = optimiser.step(learning_rate, config.max_grad_norm)
            if statistics is not None:
                measured.append(torch.cat((statistics, norm.view(1))))
        if config.target_kl is not None and float(measured[-1][3]) > config.target_kl:
            break
    return torch.stack(measured).mean(0)


def minibatches(samples: Samples, config: Config, generator: torch.Generator) -> Iterator[Samples]:
    """One epoch: all rows in a random order, in pieces of ``minibatch_size``, advantages normalised in each."""
    count = len(samples.returns if samples.rows is None else samples.rows)
    size = count if config.algo == "a2c" else min(config.minibatch_size, count)
    order = torch.randperm(count, device=samples.returns.device, generator=generator)
    order = order[: count // size * size]
    if samples.rows is not None:
        order = samples.rows[order]
    # one gather an epoch, and views of it; only the inputs, which may be images, are gathered piece by piece
    actions, log_probs, gains, returns, values = (
        column.index_select(0, order)
        for column in (samples.actions, samples.log_probs, samples.advantages, samples.returns, samples.values)
    )
    if config.normalise_advantages and size > 1:
        pieces = gains.view(-1, size)
        variance, mean = torch.var_mean(pieces, 1, keepdim=True)
        gains = ((pieces - mean) / (variance.sqrt() + 1e-8)).flatten()
    columns = (column.split(size) for column in (order, actions, log_probs, gains, returns, values))
    for rows, *piece in zip(*columns, strict=True):
        yield Samples(samples.inputs.index_select(0, rows), *piece)
