"""Random actions that respect an environment's ``action_mask``."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from headrace.pool.spec import AgentType, TaskSpec


def allowed(spec: TaskSpec, action: Any, mask: np.ndarray | None, random: np.random.Generator) -> Any:
    """Returns one environment's action, with choices drawn at random from those that its mask allows.

    Args:
        spec: the task's spec.
        action: a sample of ``spec.action``.
        mask: bool [choices], or [agents, choices] of a multi-agent task; None if every action is allowed.
        random: the source of randomness.
    """
    if mask is None:
        return action
    action = {name: np.array(part) for name, part in action.items()} if isinstance(action, dict) else np.array(action)
    rows = mask.reshape(spec.num_agents, -1)
    first = 0
    for kind in spec.agents or (AgentType("agent", 1, spec.observation, spec.action),):
        mine = range(first, first + kind.count)
        first += kind.count
        if not (heads := _heads(kind.action)):
            continue
        if isinstance(action, dict):
            choices = action[kind.name].reshape(kind.count, -1)
        else:
            choices = action.reshape(spec.num_agents, -1)[mine.start : mine.stop]
        for row, chosen in zip(rows[mine.start : mine.stop], choices, strict=True):
            _draw(row, chosen, heads, random)
    return action


def _draw(mask: np.ndarray, chosen: np.ndarray, heads: list[tuple[int, int]], random: np.random.Generator) -> None:
    """Draws the choice of each head (first action, number of actions) from those that the mask allows.

    A head without allowed choices keeps its choice.
    """
    at = 0
    for head, (start, number) in enumerate(heads):
        free = np.flatnonzero(mask[at : at + number])
        if len(free):
            chosen[head] = start + random.choice(free)
        at += number


def _heads(space: gym.Space) -> list[tuple[int, int]]:
    if isinstance(space, gym.spaces.Discrete):
        return [(int(space.start), int(space.n))]
    if isinstance(space, gym.spaces.MultiDiscrete):
        return list(zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True))
    return []
