"""Transitions of agents, as replays return them and losses read them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.train.modules.normalisation import RewardScaler
from headrace.train.modules.observation_encoder import InputEncoder


class Transitions(NamedTuple):
    """Transitions of agents, one in each row.

    Attributes:
        inputs: observations before the step, float32[M, D], or float64 before they are normalised.
        actions: actions in units of half their range, float32[M, A].
        rewards: reward of the step, or discounted sum over n steps, float32[M].
        discounts: factor of the next value: γ to the number of steps, 0 after termination; float32[M].
        next_observations: observations after the step, as ``inputs``; the final observation of a truncated episode.
        weights: weight of each transition in the loss, float32[M]; None for equal weights.
        masks: action masks of ``next_observations``, [M, K], 0 for forbidden actions; None without masks.
    """

    inputs: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    next_observations: Tensor
    weights: Tensor | None = None
    masks: Tensor | None = None

    def mean(self, each: Tensor) -> Tensor:
        """Returns the weighted mean of a value of each transition, [..., M], over the last axis."""
        return each.mean(-1) if self.weights is None else (each * self.weights).mean(-1)


def to_device(host: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor, of any shape, on a device; nothing waits for the copy to a GPU, from pinned memory."""
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.to(device)


class Recorded(NamedTuple):
    """A rollout to be written to a replay.

    Attributes:
        transitions: M transitions.
        present: whether the agent was in the game, bool[M]; None if all agents were.
    """

    transitions: Transitions
    present: Tensor | None


def normalised(some: Transitions, encoder: InputEncoder, scaler: RewardScaler | None, steps: int = 1) -> Transitions:
    """Returns transitions of up to ``steps`` steps, normalised by the present statistics.

    Observations of a `Discrete`, int64[B], and images for a perceptron become vectors first.

    Args:
        scaler: scales rewards; None without scaling.
    """
    if not encoder.image and some.inputs.shape[1:] != encoder.shape:
        inputs, next_observations = map(encoder.plain, (some.inputs, some.next_observations))
        some = some._replace(inputs=inputs, next_observations=next_observations)
    if encoder.normaliser is not None:
        inputs, next_observations = map(encoder.normaliser, (some.inputs, some.next_observations))
        some = some._replace(inputs=inputs, next_observations=next_observations)
    return some if scaler is None else some._replace(rewards=scaler.scaled(some.rewards, steps))
