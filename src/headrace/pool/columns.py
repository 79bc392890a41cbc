"""The arrays that hold a multi-agent environment's observations and actions, and the agents that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.pool.spec import TaskSpec


@dataclass(frozen=True)
class Column:
    """One dense array [rows, count, …] of observations or actions of some agents.

    Attributes:
        name: the array's key in a `Dict` space; None if the space is a single array.
        first, count: the array's agents are ``first … first + count - 1``.
        space: the space of one agent.
    """

    name: str | None
    first: int
    count: int
    space: gym.Space

    def of(self, values: Any) -> np.ndarray:
        """Returns this column of an observation or action, [rows, count, …]."""
        return values if self.name is None else values[self.name]

    def filler(self, k: int) -> np.ndarray:
        """Returns valid values [k, count, …] of the space, for agents whose values have no effect."""
        space: Any = self.space
        neutral = np.clip(0, space.low, space.high) if isinstance(space, gym.spaces.Box) else getattr(space, "start", 0)
        return np.full((k, self.count, *(space.shape or ())), neutral, space.dtype)


def columns(spec: TaskSpec, which: str) -> list[Column]:
    """Returns the arrays of a multi-agent task's observations or actions; ``which`` is "observation" or "action"."""
    spaces = [getattr(kind, which) for kind in spec.agents]
    if any(space != spaces[0] for space in spaces):
        counts = [kind.count for kind in spec.agents]
        firsts = np.cumsum([0, *counts[:-1]]).tolist()
        return [Column(k.name, f, k.count, s) for k, f, s in zip(spec.agents, firsts, spaces, strict=True)]
    if isinstance(spaces[0], gym.spaces.Dict):
        return [Column(key, 0, spec.num_agents, space) for key, space in spaces[0].spaces.items()]
    return [Column(None, 0, spec.num_agents, spaces[0])]
