"""Proximal policy optimisation: advantages, the clipped loss, and one iteration's updates.

The loss is differentiated by hand down to the network's outputs (`loss_gradient`); from
there the network's own backward, or autograd, carries on. Nothing here waits for the
device: all statistics stay tensors until the caller wants to print them.

Sources: Schulman et al. 2017 (arXiv:1707.06347); Schulman et al. 2016 for GAE
(arXiv:1506.02438); Pardo et al. 2018 for time limits (arXiv:1712.00378); Huang et al. 2022,
"The 37 implementation details of PPO".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.config.settings import Config
from headrace.train.modules.action_masks import masked
from headrace.train.modules.distributions import Distribution
from headrace.train.modules.mlp import MLP

STATISTICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")
CHUNK = 8192  # rows for each of torch's threads, whose activations stay near it on their way forward and back


@dataclass(frozen=True)
class Samples:
    """What one rollout gives to learn from, flattened to M = T·N rows.

    Agents that had left the game give nothing to learn. Where shapes may depend on the data, ``rows`` leaves
    their rows out; where they may not (in a CUDA graph, in sequences), ``weights`` counts them as nothing.

    Attributes:
        inputs: network inputs [M, …].
        actions: [M, *action_shape].
        log_probs: log-probabilities of the actions when they were taken, float32[M]; None where the policy is
            still the same, so that all ratios are 1.
        advantages, returns, values: float32[M]; values are the critic's when the actions were taken.
        rows: int64[K], the rows to learn from; None for all.
        weights: float32[M], 1 for each row to learn from, 0 for the others; None for all.
        memory: a recurrent network's before the first step, float32[N, H].
        starts: whether an episode begins with a row, bool[M]; with ``memory``.
        forbidden: actions that were not to be taken, bool[M, logits]; None where there are no masks.
    """

    inputs: Tensor
    actions: Tensor
    log_probs: Tensor | None
    advantages: Tensor
    returns: Tensor
    values: Tensor
    rows: Tensor | None = None
    weights: Tensor | None = None
    memory: Tensor | None = None
    starts: Tensor | None = None
    forbidden: Tensor | None = None


class Rates(NamedTuple):
    """The settings that may change during a run: numbers, or 0-d tensors, which a CUDA graph reads anew."""

    learning_rate: float | Tensor
    clip_range: float | Tensor
    entropy_coef: float | Tensor
    value_coef: float | Tensor
    max_grad_norm: float | Tensor

    @classmethod
    def of(cls, config: Config, step: int) -> Rates:
        """Those of so many agent steps into a run."""
        now = config.at(step)
        rates = cls(*(getattr(now, name) for name in cls._fields))
        if config.anneal_learning_rate and "learning_rate" not in config.schedules:
            rates = rates._replace(learning_rate=now.learning_rate * max(0.0, 1.0 - step / config.total_steps))
        return rates


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
    rates: Rates,
    params: Tensor,
    values: Tensor,
    batch: Samples,
    share: float | Tensor,
    measure: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradient of the PPO loss with respect to the network's outputs.

    The loss is ``mean(-min(r·A, clip(r)·A)) + value_coef · mean((v - R)²)/2 - entropy_coef · mean(H)``.

    Args:
        share: what each row counts in the mean: a number, or float32[B].

    Returns:
        d loss/d params [B, size], d loss/d values [B], and if ``measure``
        [policy_loss, value_loss, entropy, approx_kl, clip_fraction], this batch's share of each, as one tensor.
    """
    if batch.forbidden is not None:
        params = masked(params, batch.forbidden)
    log_prob, entropy, saved = distribution.evaluate(params, batch.actions)
    slope, policy_statistics = _surrogate(log_prob, batch, rates.clip_range)
    d_params = distribution.gradient(saved, slope * -share, -rates.entropy_coef * share)

    error = values - batch.returns
    d_values = error
    if config.value_clip_range is not None:
        # the larger of the two squared errors counts; clipped away, the value's gradient is zero
        change = values - batch.values
        limited = change.clamp(-config.value_clip_range, config.value_clip_range)
        limited_error = batch.values + limited - batch.returns
        keep = (error.square() >= limited_error.square()) | (change == limited)
        d_values = torch.where(keep, error, 0.0)
        error = torch.where(error.square() >= limited_error.square(), error, limited_error)
    d_values = d_values * (rates.value_coef * share)

    if not measure:
        return d_params, d_values, None
    policy_loss, *moved = policy_statistics()
    statistics = (torch.stack((policy_loss, error.square() / 2, entropy, *moved)) * share).sum(1)
    return d_params, d_values, statistics if moved else F.pad(statistics, (0, 2))


def _surrogate(
    log_prob: Tensor, batch: Samples, clip: float | Tensor
) -> tuple[Tensor, Callable[[], tuple[Tensor, ...]]]:
    """The slope of ``min(r·A, clip(r)·A)`` with respect to the log-probability, float32[B].

    And a function that gives minus that minimum, the estimated KL divergence from the policy that acted, and
    whether the ratio is clipped, each float32[B]; the first alone where all ratios are 1.
    """
    gain = batch.advantages
    if batch.log_probs is None:
        return gain, lambda: (-gain,)
    log_ratio = log_prob - batch.log_probs
    ratio = log_ratio.exp()
    free, clipped = gain * ratio, gain * torch.clamp(ratio, 1 - clip, 1 + clip)  # type: ignore

    def statistics() -> tuple[Tensor, ...]:
        divergence = ratio - 1 - log_ratio  # Schulman's low-variance estimate
        return -torch.minimum(free, clipped), divergence, ((ratio - 1).abs() > clip).float()

    # where the clipped term is the smaller one, the loss does not depend on the policy
    return torch.where(free <= clipped, free, 0.0), statistics


def backward(
    network: nn.Module,
    optimiser: FlatAdam,
    distribution: Distribution,
    config: Config,
    rates: Rates,
    batch: Samples,
    measure: bool,
) -> Tensor | None:
    """Fill the gradient buffer for one minibatch; returns `loss_gradient`'s statistics."""
    optimiser.rows = len(batch.returns) if batch.weights is None else batch.weights.sum()
    share = 1 / len(batch.returns) if batch.weights is None else batch.weights / batch.weights.sum().clamp(min=1)
    if isinstance(network, MLP):
        return _backward_in_chunks(network, distribution, config, rates, batch, share, measure)
    optimiser.gradient.zero_()
    if batch.memory is None:
        params, values = network(batch.inputs)
    else:
        assert batch.starts is not None
        params, values = network.unroll(batch.inputs, batch.memory, batch.starts)  # type: ignore[operator]
    with torch.no_grad():
        d_params, d_values, statistics = loss_gradient(
            distribution, config, rates, params, values, batch, share, measure
        )
    torch.autograd.backward((params, values), (d_params, d_values))
    return statistics


@torch.inference_mode()
def _backward_in_chunks(
    network: MLP,
    distribution: Distribution,
    config: Config,
    rates: Rates,
    batch: Samples,
    share: float | Tensor,
    measure: bool,
) -> Tensor | None:
    count, statistics = len(batch.returns), None
    size = CHUNK * torch.get_num_threads() if batch.returns.device.type == "cpu" else count
    for start in range(0, count, size):
        rows = slice(start, start + size)
        part = batch if size >= count else _pick(batch, rows)
        mine = share[rows] if isinstance(share, Tensor) else share
        params, values, saved = network.forward_saving(part.inputs)
        d_params, d_values, measured = loss_gradient(distribution, config, rates, params, values, part, mine, measure)
        network.backward_into_gradients(saved, d_params, d_values, add=start > 0)
        if measured is not None:
            statistics = measured if statistics is None else statistics + measured
    return statistics


def update(
    network: nn.Module,
    optimiser: FlatAdam,
    distribution: Distribution,
    config: Config,
    samples: Samples,
    rates: Rates,
    orders: Iterable[Tensor | None],
    interrupted: Callable[[], bool] = lambda: False,
) -> Tensor | None:
    """One epoch over a rollout for each of ``orders``, see `draw_order`; none once ``interrupted``.

    Returns:
        `STATISTICS` averaged over the last epoch that ran, as one tensor on the network's device; None if they were not
        measured, as it should not have been the last.
    """
    measured: list[Tensor] = []
    orders = list(orders)
    for order in orders:
        if interrupted():
            break
        measure = config.target_kl is not None or order is orders[-1]
        measured.clear()
        for batch in minibatches(samples, config, order):
            statistics = backward(network, optimiser, distribution, config, rates, batch, measure)
            norm = optimiser.step(rates.learning_rate, rates.max_grad_norm)
            if statistics is not None:
                measured.append(torch.cat((statistics, norm.view(1))))
        if config.target_kl is not None and _divergence(measured[-1], optimiser) > config.target_kl:
            break
    return torch.stack(measured).mean(0) if measured else None


def _divergence(statistics: Tensor, optimiser: FlatAdam) -> float:
    """The last minibatch's approximate KL, the same in all processes that train together."""
    kl = statistics[3:4].clone()
    if optimiser.reduce is not None:
        optimiser.reduce(kl, optimiser.rows)
    return float(kl)


def draw_order(samples: Samples, config: Config, generator: torch.Generator) -> Tensor | None:
    """The rows of one epoch's minibatches, int64[pieces, size]; rows that do not fill a last one sit out that epoch.

    Advantage actor-critic (``algo="a2c"``) is one epoch of one minibatch, all rows in order (None): the ratio is then
    1 everywhere, and the gradient is that of ``-mean(A · log π)`` (Mnih et al. 2016, arXiv:1602.01783).
    A recurrent network's minibatches are whole sequences: the rows of some of the rollout's columns, step by step.
    """
    if config.algo == "a2c":
        return None
    device, drawn_on, total = samples.returns.device, generator.device, len(samples.returns)
    if samples.memory is None:
        count = total if samples.rows is None else len(samples.rows)
        size = min(config.minibatch_size, count)
        order = torch.randperm(count, device=drawn_on, generator=generator)[: count // size * size].to(device)
        return (order if samples.rows is None else samples.rows[order]).view(-1, size)
    columns = len(samples.memory)
    steps = total // columns
    size = min(max(1, config.minibatch_size // steps), columns)
    picked = torch.randperm(columns, device=drawn_on, generator=generator)[: columns // size * size].view(-1, 1, size)
    picked = picked.to(device)
    return (picked + columns * torch.arange(steps, device=device).view(-1, 1)).flatten(1)


def minibatches(samples: Samples, config: Config, order: Tensor | None) -> Iterator[Samples]:
    """The pieces of one epoch, the advantages of each normalised."""
    if order is None:
        whole = samples if samples.rows is None else _pick(samples, samples.rows)
        gains = whole.advantages
        if config.normalise_advantages and len(gains) > 1:
            weights = None if whole.weights is None else whole.weights.view(1, -1)
            gains = _normalised(gains.view(1, -1), weights).view(-1)
        yield replace(whole, advantages=gains)
        return
    # one gather an epoch, and views of it; only the inputs, which may be images, are gathered piece by piece
    size = order.shape[1]
    picked = {
        name: column.index_select(0, order.view(-1)).view(-1, size, *column.shape[1:])
        for name, column in _columns(samples)
    }
    if config.normalise_advantages and size > 1:
        picked["advantages"] = _normalised(picked["advantages"], picked.get("weights"))
    if samples.memory is not None:
        # a piece's first rows are the first steps of its columns
        picked["memory"] = samples.memory[order[:, : size * len(samples.memory) // len(samples.returns)]]
    assert samples.log_probs is not None
    names, columns = tuple(picked), tuple(column.unbind(0) for column in picked.values())
    for rows, *piece in zip(order, *columns, strict=True):
        yield Samples(samples.inputs.index_select(0, rows), **dict(zip(names, piece, strict=True)))


def _normalised(gains: Tensor, weights: Tensor | None) -> Tensor:
    """Rows of [pieces, size] with mean 0 and standard deviation 1 over what counts."""
    if weights is None:
        variance, mean = torch.var_mean(gains, 1, keepdim=True)
        return (gains - mean) / (variance.sqrt() + 1e-8)
    count = weights.sum(1, keepdim=True)
    mean = (gains * weights).sum(1, keepdim=True) / count.clamp(min=1)
    apart = (gains - mean) * weights
    return apart / ((apart.square().sum(1, keepdim=True) / (count - 1).clamp(min=1)).sqrt() + 1e-8)


def _columns(samples: Samples) -> list[tuple[str, Tensor]]:
    """What there is of each row, the inputs left out."""
    names = ("actions", "log_probs", "advantages", "returns", "values", "weights", "starts", "forbidden")
    return [(name, column) for name in names if (column := getattr(samples, name)) is not None]


def _pick(samples: Samples, rows: Tensor | slice) -> Samples:
    """Some rows of feed-forward samples."""
    columns: dict[str, Any] = {name: column[rows] for name, column in _columns(samples)}
    return replace(samples, inputs=samples.inputs[rows], rows=None, **columns)
