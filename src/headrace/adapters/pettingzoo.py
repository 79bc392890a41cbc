"""One environment of a multi-agent task as a PettingZoo `ParallelEnv`.

PettingZoo uses dictionaries by agent, which are convenient for libraries and tests, but slow; training uses the pool
itself.

    >>> from headrace.adapters import pettingzoo
    >>> env = pettingzoo.parallel_env("TagGridWorld-v0", num_taggers=4)
    >>> observations, infos = env.reset(seed=1)
    >>> env.agents
    ['tagger_0', 'tagger_1', 'tagger_2', 'tagger_3', 'runner_0']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import ActionError, OptionError, SequenceError
from headrace.pool.columns import Column, columns
from headrace.pool.infos import info_of_row
from headrace.pool.make_pool import make_pool

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(f"this adapter needs PettingZoo ({error}): pip install 'headrace[pettingzoo]'") from error

Agents = dict[str, Any]


def parallel_env(task: str, render_mode: str | None = None, **options: Any) -> PettingZooEnv:
    """Returns one environment of a multi-agent task.

    Args:
        task: a name from `headrace.list_all_envs`, such as ``"TagGridWorld-v0"``.
        render_mode: None or ``"rgb_array"``.
        options: ``seed`` and the task's own options, as in `headrace.make`.

    Raises:
        UnknownTaskError: there is no such task.
        OptionError: the task is for one agent, or an option is unknown or wrong.
    """
    return PettingZooEnv(task, render_mode, **options)


class PettingZooEnv(ParallelEnv[str, Any, Any]):
    """A pool of one environment as a `pettingzoo.ParallelEnv`.

    Agents are named by their type and their number within it, ``"tagger_0"``, in the pool's order. An agent leaves
    `agents` with the step in which it leaves the game (``info["alive"]``) or the episode ends, and does not return
    before the next reset. It is terminated if it left the game or the episode terminated, and truncated if the episode
    was truncated, or, in a pool of a PettingZoo environment (``info["truncations"]``), if the agent was. ``infos`` hold
    the pool's other info fields: the agent's own value of per-agent fields, and the other fields in full.

    Attributes:
        state_space: the `Box` space of `state`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10, "is_parallelizable": True}  # noqa: RUF012

    def __init__(self, task: str, render_mode: str | None = None, **options: Any):
        if render_mode not in (None, "rgb_array"):
            raise OptionError(f"render_mode must be None or 'rgb_array', not {render_mode!r}")
        for name in ("num_envs", "batch_size", "autoreset", "max_num_players"):
            if name in options:
                raise OptionError(f"{name} is not for PettingZoo, which has one environment that its user resets")
        self.pool = make_pool(task, num_envs=1, autoreset="disabled", **options)
        kinds = self.pool.spec.agents
        if not kinds:
            self.pool.close()
            raise OptionError(f"{task} is for one agent: PettingZoo is for many; see gymnasium.make('headrace/{task}')")
        self.render_mode = render_mode
        self.metadata = {**PettingZooEnv.metadata, "name": task}
        self.possible_agents = [f"{kind.name}_{i}" for kind in kinds for i in range(kind.count)]
        self.agents: list[str] = []
        self._number = {agent: i for i, agent in enumerate(self.possible_agents)}
        self._seen, self._acted = columns(self.pool.spec, "observation"), columns(self.pool.spec, "action")
        types = zip(self.possible_agents, (kind for kind in kinds for _ in range(kind.count)), strict=True)
        # a separate space for each agent, so that seeding one does not affect the others' samples
        spaces = {agent: (deepcopy(kind.observation), deepcopy(kind.action)) for agent, kind in types}
        self.observation_spaces = {agent: own for agent, (own, _) in spaces.items()}
        self.action_spaces = {agent: own for agent, (_, own) in spaces.items()}
        self.state_space = gym.spaces.Box(-np.inf, np.inf, (sum(map(_size, self._seen)),), np.float32)
        self._per_agent = {f.name for f in self.pool.spec.info if f.per_agent}
        self._obs: Any = None

    def observation_space(self, agent: str) -> gym.Space:
        """Returns the space of an agent's observations, the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space:
        """Returns the space of an agent's actions, the same object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Agents, Agents]:
        """Begins an episode; returns observations and infos of the agents in it.

        Args:
            seed: the seed at which the random streams restart; None continues them.
            options: ignored.
        """
        self._obs, info = self.pool.reset(seed=seed)
        self.agents = self._where(info["alive"][0])
        return self._observations(self.agents), self._infos(self.agents, info)

    def step(self, actions: Mapping[str, Any]) -> tuple[Agents, Agents, Agents, Agents, Agents]:
        """Advances all agents in `agents` by one step; ``actions`` holds an action for each.

        Returns:
            Dicts by agent of observations, rewards (float), terminations, truncations and infos of the agents that
            acted.

        Raises:
            ActionError: an agent's action is missing or outside of its space, or an agent is unknown or has left.
            SequenceError: no agent is left, or the environment was not reset.
        """
        acting = self.agents
        if not acting:
            raise SequenceError(f"nobody is left in {self.pool.spec.task}: call reset() first")
        self._obs, reward, terminated, truncated, info = self.pool.step(self._dense(actions))
        ended, cut = _ends(terminated[0], truncated[0], info)
        terminations = {agent: bool(ended[self._number[agent]]) for agent in acting}
        truncations = {agent: bool(cut[self._number[agent]]) for agent in acting}
        self.agents = [agent for agent in acting if not (terminations[agent] or truncations[agent])]
        rewards = {agent: float(reward[0, self._number[agent]]) for agent in acting}
        return self._observations(acting), rewards, terminations, truncations, self._infos(acting, info)

    def state(self) -> np.ndarray:
        """Returns the observations of all agents, flattened and concatenated: float32[size of `state_space`].

        Raises:
            SequenceError: the environment was never reset.
        """
        if self._obs is None:
            raise SequenceError("the environment was never reset: call reset() first")
        return np.concatenate([column.of(self._obs)[0].ravel() for column in self._seen]).astype(np.float32)

    def render(self) -> np.ndarray | None:
        """Returns an RGB frame uint8[height, width, 3] with ``render_mode="rgb_array"``, else None."""
        return self.pool.render()[0] if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.pool.close()

    # -- between dictionaries and dense rows -----------------------------------------------------

    def _where(self, mask: np.ndarray) -> list[str]:
        return [self.possible_agents[i] for i in np.flatnonzero(mask)]

    def _observations(self, agents: Iterable[str]) -> Agents:
        return {agent: self._observation(agent) for agent in agents}

    def _observation(self, agent: str) -> Any:
        i = self._number[agent]
        own = {c.name: c.of(self._obs)[0, i - c.first] for c in self._seen if c.first <= i < c.first + c.count}
        return own if isinstance(self.observation_spaces[agent], gym.spaces.Dict) else next(iter(own.values()))

    def _infos(self, agents: Iterable[str], info: Mapping[str, Any]) -> Agents:
        common = {k: v for k, v in info_of_row(info, 0).items() if k not in self._per_agent}
        own = {k: info[k][0] for k in self._per_agent if k not in ("alive", "truncations")}
        return {agent: common | {k: v[self._number[agent]] for k, v in own.items()} for agent in agents}

    def _dense(self, actions: Mapping[str, Any]) -> Any:
        """Returns dense actions for the pool; agents that have left get a valid action."""
        if actions.keys() != set(self.agents):
            wrong = sorted(map(str, actions.keys() ^ set(self.agents)))[0]
            what = "has no action" if wrong in self.agents else "is not in the game"
            raise ActionError(f"{wrong} {what}: give one for each of agents, {len(self.agents)} now")
        dense = {c.name: c.filler(1) for c in self._acted}
        for agent, action in actions.items():
            i, space = self._number[agent], self.action_spaces[agent]
            if not _fits(action, space):
                raise ActionError(f"{agent}: action {action!r} is not in {space}")
            for c in self._acted:
                if c.first <= i < c.first + c.count:
                    dense[c.name][0, i - c.first] = action[c.name] if isinstance(space, gym.spaces.Dict) else action
        return dense.get(None, dense)


def _ends(terminated: np.bool_, truncated: np.bool_, info: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Returns whether each agent was terminated and whether it was truncated by a step, bool[agents] each."""
    alive = info["alive"][0]
    if "truncations" not in info:  # agents are truncated together, with their episode
        return terminated | ~alive, np.full(len(alive), truncated)
    cut = info["truncations"][0] | (alive & truncated)
    return terminated | ~(alive | cut), cut


def _size(column: Column) -> int:
    return column.count * int(np.prod(column.space.shape or ()))


def _fits(action: Any, space: gym.Space) -> bool:
    """Returns whether the pool accepts an action; floats may be outside of a `Box`, as environments clip them."""
    if isinstance(space, gym.spaces.Dict):
        same = isinstance(action, Mapping) and action.keys() == space.spaces.keys()
        return same and all(_fits(action[key], sub) for key, sub in space.spaces.items())
    if isinstance(space, gym.spaces.Box):
        array = np.asarray(action)
        same = array.shape == space.shape and np.can_cast(array.dtype, space.dtype, "same_kind")
        return same and (space.dtype.kind == "f" or bool(((array >= space.low) & (array <= space.high)).all()))
    return space.contains(action)
