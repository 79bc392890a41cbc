"""Names of discrete actions, for displays of an agent's actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from headrace.pool.registry import family_of


def action_meanings(task: str, options: Mapping[str, Any], action: gym.Space) -> tuple[str, ...] | None:
    """Returns a name for each discrete action of an agent, or None if the action space is continuous.

    The names of a `MultiDiscrete` space are those of its components, concatenated. Actions that have no
    name are named by their numbers.

    Args:
        task: the task's name.
        options: the task's options, with their defaults filled in.
        action: the action space of one agent.
    """
    if isinstance(action, gym.spaces.MultiDiscrete):
        heads = zip(action.nvec.flat, action.start.flat, strict=True)
        return tuple(str(start + i) for size, start in heads for i in range(int(size)))
    if not isinstance(action, gym.spaces.Discrete):
        return None
    names: Sequence[str] | None = None
    if (family := family_of(task)) is not None:
        known = family.meanings
        names = known.get(task) if isinstance(known, Mapping) else known(task, options)
    if names is not None and len(names) == action.n:
        return tuple(names)
    return tuple(str(int(action.start) + i) for i in range(int(action.n)))
