"""The outputs of an agent's network for an observation: probabilities or values of actions, and the expected return."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import NEVER
from headrace.train.modules.distributions import Categorical, MultiCategorical
from headrace.train.modules.exploration import EpsilonGreedy
from headrace.train.modules.policy_module import Acted


@dataclass(frozen=True)
class Insight:
    """The outputs of one agent's network for its last observation.

    Attributes:
        value: expected discounted return, in units of the environments' rewards; None if the network has no values.
        probabilities: probabilities of the actions, one list for each discrete choice; None for other actions.
        action_values: value of each action, -inf for forbidden ones, if the algorithm learns action values (DQN, PQN);
            otherwise None.
        actions: the chosen action: the index of each discrete choice, or the numbers that the environment received.
    """

    value: float | None
    probabilities: list[list[float]] | None
    action_values: list[float] | None
    actions: list[float]


def insight(policy: Policy, acted: Acted, rows: slice) -> Insight:
    """Returns the insight of a single row, of length 1."""
    inputs, params, actions = acted.inputs[rows], acted.params[rows], acted.actions[rows]
    distribution = policy.distribution
    if isinstance(distribution, EpsilonGreedy):
        known = policy.in_rewards(params[0])
        values = known.masked_fill(params[0] < NEVER / 2, -math.inf).tolist()
        return Insight(max(values), None, values, actions.float().tolist())
    chosen = actions if isinstance(distribution, Categorical | MultiCategorical) else distribution.to_env(actions)
    done = chosen.flatten().float().tolist()
    if isinstance(policy, OffPolicy):
        return Insight(_lowest_value(policy, inputs, actions), None, None, done)
    value = policy.worth(inputs, params, acted.values[rows])
    return Insight(float(value), _probabilities(distribution, params), None, done)


def _probabilities(distribution: object, params: Tensor) -> list[list[float]] | None:
    if isinstance(distribution, Categorical):
        return [torch.softmax(params[0], 0).tolist()]
    if isinstance(distribution, MultiCategorical):
        return [torch.softmax(logits, 0).tolist() for logits in params[0].split(distribution.sizes)]
    return None


def _lowest_value(policy: OffPolicy, inputs: Tensor, actions: Tensor) -> float | None:
    critic = getattr(policy.network, "critic", None)
    return None if critic is None else float(policy.in_rewards(critic(inputs, actions.reshape(1, -1)).amin()))
