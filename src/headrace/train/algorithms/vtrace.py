"""V-trace: targets and advantages for a policy from rollouts of a slightly older one.

Samplers that do not wait for the learner act with a policy that is some updates old. Importance weights correct for
that. They are clipped, since their products would have an unbounded variance.

Source: Espeholt et al. 2018, "IMPALA" (arXiv:1802.01561), equation 1 and remark 2.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Targets(NamedTuple):
    """The targets of a rollout, float32[T, N] each.

    Attributes:
        values: targets of the critic, v.
        advantages: advantages of the actions, without an importance weight for the action itself, which is PPO's ratio.
    """

    values: Tensor
    advantages: Tensor


def vtrace(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_values: Tensor,
    log_ratios: Tensor,
    gamma: float,
    trace_decay: float,
    rho_clip: float,
    c_clip: float,
) -> Targets:
    """Returns the targets of a rollout, exact at the ends of episodes as `headrace.train.algorithms.gae.gae` is.

    With ρ = π/μ, δ = r + γ·V(x') - V(x) and c = λ·min(c̄, ρ): ``v - V(x) = min(ρ̄, ρ)·δ + γ·c·(v' - V(x'))``, and
    the advantage is ``δ + γ·λ·(v' - V(x'))``. Where π = μ and both clips are at least 1, the advantages are those of
    generalised advantage estimation, and v is their sum with the values.

    Args:
        rewards: float32[T, N].
        values: values of the policy that learns, float32[T + 1, N]; row T is of the observation after the last step.
        terminated, truncated: bool[T, N]; where both, terminated counts.
        final_values: values of final observations, float32[T, N]; read only where truncated.
        log_ratios: log π(a|x) - log μ(a|x), of the policies that learns and that acted, float32[T, N].
        gamma, trace_decay: discount γ and decay λ.
        rho_clip, c_clip: ρ̄ and c̄.
    """
    ratios = log_ratios.exp()
    next_values = torch.where(truncated, final_values, values[1:]).masked_fill_(terminated, 0.0)
    errors = next_values.mul_(gamma).add_(rewards).sub_(values[:-1])
    decays = (~(terminated | truncated)).to(errors.dtype).mul_(gamma * trace_decay)
    corrections = ratios.clamp(max=rho_clip).mul_(errors)
    rows, traces = corrections.unbind(0), (ratios.clamp(max=c_clip) * decays).unbind(0)
    for t in range(len(rewards) - 2, -1, -1):
        rows[t].addcmul_(traces[t], rows[t + 1])
    errors[:-1].addcmul_(decays[:-1], corrections[1:])
    return Targets(values[:-1] + corrections, errors)
