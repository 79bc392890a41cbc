"""Action masks, with which an environment restricts the actions that policies may choose.

``info["action_mask"]`` holds the masks that belong to an observation, from which the next action is chosen: int8 or
bool, 0 for forbidden actions, [N, K] (or [N, agents, K] with several agents), where K is the number of actions. The
masks of several heads are concatenated; if agent types have different numbers of actions, K is the largest number, and
the masks of the other types fill the first columns.

Logits of forbidden actions are lowered so far that their probability is exactly 0, but not to -inf, so that p · log p
is 0, too. The result is the softmax over the allowed actions, with its gradients (Huang and Ontañón 2022,
arXiv:2006.14171). Distributions and networks are unaffected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.action_masks import MASK, heads_of
from headrace.pool.spec import TaskSpec

NEVER = -1e9


def has_masks(spec: TaskSpec) -> bool:
    return any(field.name == MASK for field in spec.info)


def check_masks(spec: TaskSpec) -> None:
    """Raises `OptionError` if the environments' masks do not fit their actions."""
    given = next(field.shape for field in spec.info if field.name == MASK)
    widest = max(sum(heads_of(space)) for space in [kind.action for kind in spec.agents] or [spec.action])
    if widest == 0:
        raise OptionError(
            f"{spec.task} has info[{MASK!r}], but continuous actions, which have none: train with action_masks=False"
        )
    if given != (wanted := (*spec.reward_shape, widest)):
        raise OptionError(f"{spec.task}: info[{MASK!r}] must have shape {wanted} to mask its actions, not {given}")


def check_declared(info: Mapping[str, Any], spec: TaskSpec, used: bool) -> None:
    """Raises `OptionError` if a step's info has masks, to be ``used``, that the task does not declare."""
    if MASK in info and used and not has_masks(spec):
        raise OptionError(
            f"{spec.task}: info[{MASK!r}] is no mask of its actions, {spec.action}: it must have a 1 or 0 for each of "
            "some discrete actions, from the first reset on; train with action_masks=False to ignore it"
        )


def forbidden(mask: Tensor, heads: tuple[int, ...]) -> Tensor:
    """Returns forbidden actions, bool[B, sum(heads)], of masks [B, K]; a head without allowed actions is not masked."""
    parts = (mask[:, : sum(heads)] == 0).split(heads, 1)
    return torch.cat([part & ~part.all(1, keepdim=True) for part in parts], 1)


def masked(logits: Tensor, forbidden: Tensor) -> Tensor:
    """Returns logits [B, K] under which forbidden actions, bool[B, K], have probability 0."""
    return torch.add(logits, forbidden, alpha=NEVER)  # masked_fill takes five times as long on a CPU


def masked_to_draw(logits: Tensor, forbidden: Tensor) -> Tensor:
    """Returns logits [B, K] as `masked`, in float64, for sampling.

    In float32 the cumulative probabilities may end below the noise; the last action would then be drawn even if it is
    forbidden.
    """
    return masked(logits, forbidden).double()
