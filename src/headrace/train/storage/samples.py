"""The samples of a rollout, and the minibatches of an epoch over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from headrace.train.modules.mirroring import Mirroring
from headrace.train.processes.process_group import ProcessGroup


@dataclass(frozen=True)
class Samples:
    """The samples of one rollout, flattened to M = T·N rows.

    Rows of agents that had left the game are excluded: by ``rows`` where shapes may depend on the data; otherwise, in a
    CUDA graph or for sequences, by ``weights`` of 0.

    Attributes:
        inputs: network inputs [M, …].
        actions: [M, *action_shape].
        log_probs: log-probabilities of the actions under the policy that took them, float32[M]; None if the policy has
            not changed since, so that all ratios are 1.
        advantages, returns, values: float32[M]; values are the critic's when the actions were taken, in the units of
            ``returns``.
        rows: the rows to learn from, int64[K]; None for all.
        weights: 1 for rows to learn from, 0 for others, float32[M]; None for all.
        memory: the memory of a recurrent network before the first step, float32[N, H]; None for other networks.
        starts: whether an episode begins at a row, bool[M]; with ``memory``.
        forbidden: masked actions, bool[M, logits]; None without action masks.
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

    def mean(self, each: Tensor, rows: slice = slice(None)) -> Tensor:
        """Returns the mean of values [M], of some rows, over those to learn from, a 0-d tensor."""
        if self.weights is None:
            return each[rows].mean()
        weights = self.weights[rows]
        return (each[rows] * weights).sum() / weights.sum().clamp(min=1)


def draw_order(samples: Samples, minibatch_size: int, generator: torch.Generator) -> Tensor:
    """Returns the rows of the minibatches of one epoch, in random order.

    A minibatch of a recurrent network consists of whole sequences: all steps of some environments.

    Args:
        samples: the samples of the rollout.
        minibatch_size: maximum number of rows of a minibatch, which however has at least one sequence.
        generator: the source of the permutation.

    Returns:
        int64[minibatches, size]; remaining rows that do not fill a minibatch are left out.
    """
    device, drawn_on, total = samples.returns.device, generator.device, len(samples.returns)
    if samples.memory is None:
        count = total if samples.rows is None else len(samples.rows)
        size = min(minibatch_size, count)
        order = torch.randperm(count, device=drawn_on, generator=generator)[: count // size * size].to(device)
        return (order if samples.rows is None else samples.rows[order]).view(-1, size)
    columns = len(samples.memory)
    steps = total // columns
    size = min(max(1, minibatch_size // steps), columns)
    picked = torch.randperm(columns, device=drawn_on, generator=generator)[: columns // size * size].view(-1, 1, size)
    picked = picked.to(device)
    return (picked + columns * torch.arange(steps, device=device).view(-1, 1)).flatten(1)


def minibatches(
    samples: Samples, order: Tensor | None, normalise: bool, process_group: ProcessGroup | None = None
) -> Iterator[Samples]:
    """Yields the minibatches of one epoch.

    Args:
        samples: the samples of the rollout.
        order: as `draw_order` returns it; None for one minibatch of all rows.
        normalise: whether the advantages of each minibatch get mean 0 and standard deviation 1.
        process_group: the processes whose minibatches are normalised together with these; None for this process alone.
    """
    if order is None:
        whole = samples if samples.rows is None else pick(samples, samples.rows)
        gains = whole.advantages
        if normalise and (len(gains) > 1 or process_group):
            gains = normalised(gains, whole.weights, process_group)
        yield replace(whole, advantages=gains)
        return
    # one gather for the whole epoch, of which minibatches are views; inputs, which may be images, per minibatch
    size = order.shape[1]
    picked = {
        name: column.index_select(0, order.view(-1)).view(-1, size, *column.shape[1:])
        for name, column in _columns(samples)
    }
    if normalise and (size > 1 or process_group):
        picked["advantages"] = normalised(picked["advantages"], picked.get("weights"), process_group)
    if samples.memory is not None:
        # the first rows of a minibatch are the first steps of its columns
        picked["memory"] = samples.memory[order[:, : size * len(samples.memory) // len(samples.returns)]]
    names, columns = tuple(picked), tuple(column.unbind(0) for column in picked.values())
    for rows, *piece in zip(order, *columns, strict=True):
        each: dict[str, Any] = {"log_probs": None} | dict(zip(names, piece, strict=True))
        yield Samples(samples.inputs.index_select(0, rows), **each)


def normalised(gains: Tensor, weights: Tensor | None = None, process_group: ProcessGroup | None = None) -> Tensor:
    """Returns advantages with mean 0 and standard deviation 1.

    Args:
        gains: advantages, float32[…, size], normalised along the last axis.
        weights: 1 for elements that count, 0 for others, of the same shape; None if all count.
        process_group: the processes whose rows are normalised together with these; None for this process alone.
    """
    if process_group is not None:
        return _normalised_with(process_group, gains, weights)
    if weights is None:
        variance, mean = torch.var_mean(gains, -1, keepdim=True)
        return (gains - mean) / (variance.sqrt() + 1e-8)
    count = weights.sum(-1, keepdim=True)
    mean = (gains * weights).sum(-1, keepdim=True) / count.clamp(min=1)
    apart = (gains - mean) * weights
    return apart / ((apart.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt() + 1e-8)


def _normalised_with(process_group: ProcessGroup, gains: Tensor, weights: Tensor | None) -> Tensor:
    """Returns `normalised` over all processes, by one all-reduce; in float64, as large squares are subtracted."""
    exact = gains.double()
    counted = torch.ones_like(exact) if weights is None else weights.double()
    sums = torch.stack((counted.sum(-1), (exact * counted).sum(-1), (exact.square() * counted).sum(-1)), -1)
    process_group.all_reduce(sums)
    count, total, squares = sums.split(1, -1)
    mean = total / count.clamp(min=1)
    variance = (squares - mean * total).clamp(min=0) / (count - 1).clamp(min=1)
    return ((exact - mean) * counted / (variance.sqrt() + 1e-8)).to(gains.dtype)


def _columns(samples: Samples) -> list[tuple[str, Tensor]]:
    """Returns the names and tensors of the fields, except the inputs, that have a value for each row."""
    names = ("actions", "log_probs", "advantages", "returns", "values", "weights", "starts", "forbidden")
    return [(name, column) for name in names if (column := getattr(samples, name)) is not None]


def pick(samples: Samples, rows: Tensor | slice) -> Samples:
    """Returns the samples of some rows, int64[K] or a slice, for a network without memory."""
    columns: dict[str, Any] = {name: column[rows] for name, column in _columns(samples)}
    return replace(samples, inputs=samples.inputs[rows], rows=None, **columns)


def with_mirrored(samples: Samples, mirroring: Mirroring) -> Samples:
    """Returns samples followed by what a mirror shows of them: rows M to 2 M, for a network without memory.

    A mirrored action has the log-probability, the advantage and the return of the action that was taken, as in Mittal
    et al. 2024 (arXiv:2403.04359) and rsl_rl: a policy that is symmetric would have taken it as often.
    """
    twice: dict[str, Any] = {name: torch.cat((column, column)) for name, column in _columns(samples)}
    twice["actions"] = torch.cat((samples.actions, mirroring.actions(samples.actions)))
    twice["inputs"] = torch.cat((samples.inputs, mirroring.inputs(samples.inputs)))
    return replace(samples, rows=None, **twice)


def without_inference(samples: Samples) -> Samples:
    """Returns samples in which tensors made in inference mode, which autograd cannot save, are copied."""
    every = {field.name: getattr(samples, field.name) for field in fields(samples)}
    return replace(samples, **{name: x.clone() for name, x in every.items() if x is not None and x.is_inference()})
