"""Games of many agents as PettingZoo has them, for tests: agents that are truncated early, and action masks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from pettingzoo import ParallelEnv


class Forbidding(ParallelEnv):
    """Each agent may take one of its actions at a time, which its mask says; any other is an error.

    ``walker_0`` is truncated after two steps, the others are in the game for ``length``; ``walker_1`` terminates then.
    """

    metadata = {"name": "forbidding_v0"}  # noqa: RUF012  (PettingZoo's own convention)

    def __init__(self, length: int = 4, in_infos: bool = False):
        self.possible_agents, self.length, self.in_infos = ["walker_0", "walker_1", "pair_0"], length, in_infos
        bare = gym.spaces.Box(0, 100, (2,), np.float32)
        self.actions: Any = [gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([2, 3])]
        self.seen: Any = (
            [bare, bare]
            if in_infos
            else [
                gym.spaces.Dict({"observation": bare, "action_mask": gym.spaces.Box(0, 1, (size,), np.int8)})
                for size in (3, 5)
            ]
        )

    def observation_space(self, agent: str) -> gym.Space:
        return self.seen[agent == "pair_0"]

    def action_space(self, agent: str) -> gym.Space:
        return self.actions[agent == "pair_0"]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents, self.count = list(self.possible_agents), 0
        return self._seen(self.agents)

    def step(self, actions: dict[str, Any]) -> Any:
        acting = self.agents
        for agent, action in actions.items():
            if not np.array_equal(action, self._only(agent)):
                raise ValueError(f"{agent} may not do {action}")
        self.count += 1
        over = self.count == self.length
        ended = {agent: over and agent == "walker_1" for agent in acting}
        cut = {agent: (over and not ended[agent]) or (agent == "walker_0" and self.count == 2) for agent in acting}
        self.agents = [agent for agent in acting if not (ended[agent] or cut[agent])]
        seen, told = self._seen(acting)
        return seen, dict.fromkeys(acting, 1.0), ended, cut, told

    def _only(self, agent: str) -> Any:
        """The one action that is allowed now."""
        return np.array([self.count % 2, self.count % 3]) if agent == "pair_0" else self.count % 3

    def _seen(self, agents: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Observations and infos, of which one has the masks."""
        seen: dict[str, Any] = {}
        told: dict[str, Any] = {agent: {} for agent in agents}
        for agent in agents:
            mask = np.zeros(5 if agent == "pair_0" else 3, np.int8)
            mask[[self.count % 2, 2 + self.count % 3] if agent == "pair_0" else [self.count % 3]] = 1
            seen[agent] = np.full(2, self.count, np.float32)
            if self.in_infos:
                told[agent] = {"action_mask": mask}
            else:
                seen[agent] = {"observation": seen[agent], "action_mask": mask}
        return seen, told
