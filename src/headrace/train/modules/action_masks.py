"""Action masks: an environment says which actions are allowed, and no policy takes another.

A mask comes in ``info["action_mask"]``, with the observation that the next action is chosen by: int8 or bool, 0 for
what is forbidden, [N, K] (of many agents [N, agents, K]), where K is the number of actions. Several heads have their
masks side by side; of agent types with different actions the widest sets K, and the others' masks come first in it.

Logits of forbidden actions are lowered so far that their probability is exactly 0, yet not to -inf, so that
p · log p is 0, too. What is left is the softmax over the allowed actions, with its gradients (Huang and Ontañón 2022,
arXiv:2006.14171). Distributions and networks need not know.
"""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.spec import TaskSpec
from headrace.train.config.settings import Config
from headrace.train.modules.policy_mapping import AgentGroup

MASK = "action_mask"
NEVER = -1e9


def masked_heads(config: Config, spec: TaskSpec, agent_group: AgentGroup) -> tuple[int, ...]:
    """How many actions each masked head of a policy chooses among; empty where it is not masked.

    Policies of continuous actions are not, beside agents that have others.

    Raises:
        OptionError: the environment's masks do not fit its actions.
    """
    given = {field.name: field.shape for field in spec.info}.get(MASK)
    if given is None or not config.action_masks:
        return ()
    widest = max(sum(_heads(space)) for space in [kind.action for kind in spec.agents] or [spec.action])
    if widest == 0:
        raise OptionError(f"{spec.task} has info[{MASK!r}] for continuous actions: train with action_masks=False")
    if given != (wanted := (*spec.reward_shape, widest)):
        raise OptionError(f"{spec.task}: info[{MASK!r}] must have shape {wanted} to mask its actions, not {given}")
    return _heads(agent_group.action)


def forbidden(mask: Tensor, heads: tuple[int, ...]) -> Tensor:
    """What masks [B, K] forbid, bool[B, sum(heads)]; a head that is allowed nothing (of a dead agent) is not masked."""
    parts = (mask[:, : sum(heads)] == 0).split(heads, 1)
    return torch.cat([part & ~part.all(1, keepdim=True) for part in parts], 1)


def masked(logits: Tensor, forbidden: Tensor) -> Tensor:
    """Logits [B, K] under which what is forbidden, bool[B, K], has no chance."""
    return torch.add(logits, forbidden, alpha=NEVER)  # masked_fill takes five times as long on a CPU


def masked_to_draw(logits: Tensor, forbidden: Tensor) -> Tensor:
    """The same in float64, to draw actions from.

    In float32 probabilities may add up to less than the noise; the last action would be drawn then, forbidden or not.
    """
    return masked(logits, forbidden).double()


def _heads(space: gym.Space) -> tuple[int, ...]:
    if isinstance(space, gym.spaces.Discrete):
        return (int(space.n),)
    return tuple(map(int, space.nvec.flat)) if isinstance(space, gym.spaces.MultiDiscrete) else ()
