"""Generalised advantage estimation, exact at the ends of episodes.

Sources: Schulman et al. 2016 (arXiv:1506.02438); Pardo et al. 2018 for time limits (arXiv:1712.00378).
"""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_values: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Returns generalised advantage estimates float32[T, N], exact at the ends of episodes.

    The value after a termination is 0; after a truncation it is the value of the *final* observation, which differs
    from the observation of the next row, the first one of the next episode.

    Args:
        rewards: float32[T, N].
        values: float32[T + 1, N]; row T belongs to the observation after the last step.
        terminated, truncated: bool[T, N]; where both, terminated counts.
        final_values: float32[T, N]; read only where truncated.
        gamma, gae_lambda: discount and decay.
    """
    steps = len(rewards)
    next_values = torch.where(truncated, final_values, values[1:]).masked_fill_(terminated, 0.0)
    result = torch.addcmul(rewards - values[:-1], next_values, torch.full_like(next_values, gamma))
    decay = (~(terminated | truncated)).float().mul_(gamma * gae_lambda)
    rows, decays = result.unbind(0), decay.unbind(0)
    for t in range(steps - 2, -1, -1):
        rows[t].addcmul_(decays[t], rows[t + 1])
    return result
