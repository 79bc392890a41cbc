"""The acting step, the same wherever a policy acts: in rollouts, in samplers, and in agents that play."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import masked_to_draw


class Acted(NamedTuple):
    """What a policy has chosen for B rows.

    Attributes:
        params: of the distributions that the actions are from, [B, size]; float64 where some are forbidden.
        values: as the network answers them, or None.
        actions: as they are stored, [B, *action_shape]; ``distribution.to_env`` makes of them what environments take.
        memory: a recurrent network's after the step, float32[B, H]; None for others.
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
    """Chooses actions for observations.

    Args:
        policy: who chooses.
        observations: [B, …], of the policy's agents.
        inputs: where they are encoded, [B, *encoder.shape]; None where observations are inputs already.
        noise: what actions are drawn with, [B, noise_size]; None for the most likely ones.
        memory: a recurrent network's before the step, float32[B, H]; None for others.
        forbidden: actions that are not to be taken, bool[B, logits]; None for none.
    """
    seen = observations if inputs is None else policy.encoder(observations, inputs)
    if memory is None:
        params, values = policy.forward(seen)
    else:
        params, values, memory = policy.step(seen, memory)
    if forbidden is not None:
        params = masked_to_draw(params, forbidden)
    distribution = policy.distribution
    actions = distribution.mode(params) if noise is None else distribution.sample(params, noise)
    return Acted(params, values, actions, memory)


def buffer(policy: Policy, rows: int) -> Tensor | None:
    """Where `act` encodes this many observations on the CPU; None where they are inputs already."""
    encoder = policy.encoder
    return None if encoder.is_identity else torch.empty(rows, *encoder.shape, dtype=encoder.dtype)
