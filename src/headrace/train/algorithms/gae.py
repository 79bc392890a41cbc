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


def gae_of_decisions(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_values: Tensor,
    gamma: float,
    gae_lambda: float,
    waits: Tensor,
    final_waits: Tensor,
) -> tuple[Tensor, Tensor]:
    """Returns `gae` of agents that wait for others at times: from one of their decisions to the next is one step.

    Rewards of waiting count for the decision before. Values of waiting are not used, so nothing needs to learn them.

    Args:
        rewards, values, terminated, truncated, final_values, gamma, gae_lambda: as for `gae`.
        waits: bool[T + 1, N], whether an agent has no choice.
        final_waits: bool[T, N], the same of final observations; read only where truncated.

    Returns:
        Advantages float32[T, N], and the decisions that have one, bool[T, N]: those after which the agent decides
        again, or the episode terminates, before the rollout's end.
    """
    following, known, last = values[-1], ~waits[-1], torch.zeros_like(values[-1])
    earned = last  # while the agent waits
    advantages, learnable = torch.zeros_like(rewards), torch.zeros_like(terminated)
    for t in range(len(rewards) - 1, -1, -1):
        over, waiting = terminated[t] | truncated[t], waits[t]
        known = torch.where(truncated[t], ~final_waits[t], known) | terminated[t]
        following = torch.where(truncated[t], final_values[t], following).masked_fill_(terminated[t], 0.0)
        last, earned = last.masked_fill(over, 0.0), rewards[t] + earned.masked_fill(over, 0.0)
        gained = earned + gamma * following - values[t] + gamma * gae_lambda * last
        last = torch.where(waiting, last, gained.masked_fill_(~known, 0.0))
        learnable[t], advantages[t] = known & ~waiting, last
        following, earned = torch.where(waiting, following, values[t]), torch.where(waiting, earned, 0.0)
        known = known | ~waiting
    return advantages, learnable
