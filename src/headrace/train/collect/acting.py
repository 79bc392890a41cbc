"""One acting step: encode, forward, mask, sample. It is shared by rollouts, samplers and agents that play."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import masked_to_draw
from headrace.train.modules.exploration import EpsilonGreedy


class Acted(NamedTuple):
    """The result of one acting step for B rows.

    Attributes:
        params: parameters of the action distributions, [B, size]; float64 where some actions are forbidden.
        values: the network's values, float32[B], or None if it has none.
        actions: actions as they are stored, [B, *action_shape]; ``distribution.to_env`` converts them for environments.
        memory: a recurrent network's memory after the step, float32[B, H]; None for other networks.
    """

    params: Tensor
    values: Tensor
    actions: Tensor
    memory: Tensor | None


def act(
    policy: Policy,
    observations: Tensor,
    inputs: Tensor | None,
    noise: Tensor | None,
    memory: Tensor | None = None,
    forbidden: Tensor | None = None,
) -> Acted:
    """Returns the actions that a policy chooses for observations.

    Args:
        observations: observations of its agents, [B, …].
        inputs: buffer for the encoded observations, [B, *encoder.shape]; None where observations are inputs already.
        noise: noise to sample actions with, float32[B, noise_size]; None for the most likely actions.
        memory: a recurrent network's memory before the step, float32[B, H]; None for other networks.
        forbidden: actions that must not be taken, bool[B, logits]; None if all are allowed.
    """
    seen = observations if inputs is None else policy.encoder(observations, inputs)
    params, values, memory = outputs(policy, seen, memory, forbidden)
    distribution = policy.distribution
    actions = distribution.mode(params) if noise is None else distribution.sample(params, noise)
    return Acted(params, values, actions, memory)


def outputs(
    policy: Policy, inputs: Tensor, memory: Tensor | None = None, forbidden: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Returns the network's parameters and values for inputs [B, …], and its memory after the step, as in `Acted`.

    Where actions are forbidden, a state's value by values of actions is that of the best action that is not.
    """
    if memory is None:
        params, values = policy.forward(inputs)
    else:
        params, values, memory = policy.step(inputs, memory)
    if forbidden is not None:
        params = masked_to_draw(params, forbidden)
        if isinstance(policy.distribution, EpsilonGreedy):
            values = params.amax(1).to(values.dtype)
    return params, values, memory


def buffer(policy: Policy, rows: int) -> Tensor | None:
    """Returns a buffer for `act` to encode ``rows`` observations on the CPU; None where they are inputs already."""
    encoder = policy.encoder
    return None if encoder.is_identity else torch.empty(rows, *encoder.shape, dtype=encoder.dtype)
