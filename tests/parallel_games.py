"""Games of many agents as PettingZoo has them, for tests: agents that leave early, in an order that is not by type."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from pettingzoo import ParallelEnv


class Race(ParallelEnv):
    """Hares and tortoises run along a line; who reaches its end has won and leaves, and the last one is cut off.

    Hares draw their strides and see their place; tortoises choose theirs, and see everybody's.
    """

    metadata = {"name": "race_v0", "render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012  (PettingZoo's own convention)

    def __init__(self, length: float = 5.0, limit: int = 12, render_mode: str | None = None):
        self.possible_agents = ["hare_0", "tortoise_0", "hare_1"]
        self.agents: list[str] = []
        self.length, self.limit, self.render_mode = length, limit, render_mode
        self.random = np.random.default_rng()
        self.seen: Any = [gym.spaces.Box(0, 100, (size,), np.float32) for size in (1, 3)]
        self.done: Any = [gym.spaces.Discrete(3, start=1), gym.spaces.Box(0, 1, (1,), np.float32)]

    def observation_space(self, agent: Any) -> gym.Space:
        return self.seen[agent == "tortoise_0"]

    def action_space(self, agent: Any) -> gym.Space:
        return self.done[agent == "tortoise_0"]

    def _seen(self, agents: list[str]) -> dict[str, Any]:
        everybody = np.array(list(self.places.values()), np.float32)
        return {a: everybody if a == "tortoise_0" else np.array([self.places[a]], np.float32) for a in agents}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.agents, self.count = list(self.possible_agents), 0
        ahead = (options or {}).get("ahead", 0.0)
        self.places = {agent: ahead + float(self.random.random()) for agent in self.agents}
        return self._seen(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        acting = self.agents
        assert set(actions) == set(acting) and all(a in self.action_space(agent) for agent, a in actions.items())
        self.count += 1
        for agent, action in actions.items():
            self.places[agent] += self._stride(agent, action)
        ended = {agent: self.places[agent] >= self.length for agent in acting}
        cut = {agent: self.count >= self.limit and not ended[agent] for agent in acting}
        rewards = {agent: 1.0 if ended[agent] else -0.1 for agent in acting}
        self.agents = [agent for agent in acting if not (ended[agent] or cut[agent])]
        infos = {agent: {"won": self.count} if ended[agent] else {} for agent in acting}
        return self._seen(acting), rewards, ended, cut, infos

    def _stride(self, agent: str, action: Any) -> float:
        return float(action[0]) if agent == "tortoise_0" else self.random.random() * float(action) / 2

    def render(self) -> Any:
        return np.full((2, 4, 3), self.count, np.uint8) if self.render_mode == "rgb_array" else None

    def state(self) -> np.ndarray:
        return np.array(list(self.places.values()), np.float32)


class Numbered(Race):
    """The same with numbers for names, and agents that are alike, whose observations and actions are dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = [0, 1]  # type: ignore[list-item]
        place = gym.spaces.Box(1, 100, (1,), np.float32)
        self.seen = gym.spaces.Dict({"place": place, "left": gym.spaces.Discrete(99)})
        self.done = gym.spaces.Dict({"go": gym.spaces.Discrete(3, start=1)})

    def observation_space(self, agent: Any) -> gym.Space:
        return self.seen

    def action_space(self, agent: Any) -> gym.Space:
        return self.done

    def _seen(self, agents: list[Any]) -> dict[Any, Any]:
        place = {a: np.array([1 + self.places[a]], np.float32) for a in agents}
        return {a: {"place": place[a], "left": self.limit - self.count} for a in agents}

    def _stride(self, agent: Any, action: Any) -> float:
        return float(action["go"]) / 4
