"""What an agent makes of what it sees: the probabilities or values of its actions, and what it expects to earn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.acting import Acted
from headrace.train.modules.distributions import Categorical, MultiCategorical
from headrace.train.modules.exploration import EpsilonGreedy


@dataclass(frozen=True)
class Insight:
    """One agent's view of its last observation.

    Attributes:
        value: what it expects to earn from here, discounted, in the rewards that it learns from; None if it says none.
        probabilities: of each choice of discrete actions, the probabilities; None where it has none.
        action_values: what each action is worth, where the agent learns that (DQN); else None.
        actions: what it did: the number of each discrete choice, from 0, or the action's numbers for the environment.
    """

    value: float | None
    probabilities: list[list[float]] | None
    action_values: list[float] | None
    actions: list[float]


def insight(policy: Policy, inputs: Tensor, acted: Acted, rows: slice) -> Insight:
    """Returns the insight of a single row.

    Args:
        policy: who acted.
        inputs: of this row, as its network takes them, [1, …].
        acted: what it has chosen for all rows.
        rows: which of them it is.
    """
    params, actions, distribution = acted.params[rows], acted.actions[rows], policy.distribution
    if isinstance(distribution, EpsilonGreedy):
        values = params[0].tolist()
        return Insight(max(values), None, values, actions.float().tolist())
    chosen = actions if isinstance(distribution, Categorical | MultiCategorical) else distribution.to_env(actions)
    done = chosen.flatten().float().tolist()
    if isinstance(policy, OffPolicy):
        return Insight(_worth(policy, inputs, actions), None, None, done)
    return Insight(
        float(policy.worth(inputs, params, acted.values[rows])), _probabilities(distribution, params), None, done
    )


def _probabilities(distribution: object, params: Tensor) -> list[list[float]] | None:
    if isinstance(distribution, Categorical):
        return [torch.softmax(params[0], 0).tolist()]
    if isinstance(distribution, MultiCategorical):
        return [torch.softmax(logits, 0).tolist() for logits in params[0].split(distribution.sizes)]
    return None


def _worth(policy: OffPolicy, inputs: Tensor, actions: Tensor) -> float | None:
    """What the least confident critic gives for these actions."""
    critic = getattr(policy.network, "critic", None)
    return None if critic is None else float(critic(inputs, actions.flatten(1)).amin())
