"""A PettingZoo `ParallelEnv` as a Gymnasium environment with dense rows: one place for every possible agent.

PettingZoo uses dictionaries by agent, from which an agent is missing once it has left. Here each agent of
`possible_agents` has a fixed place, type by type, and ``info["alive"]`` marks the agents in the game, as in all
multi-agent tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.columns import Column, columns
from headrace.pool.spec import AgentType, TaskSpec, multi_agent_spec

NUMBER = re.compile(r"_?\d+$")


class ParallelGame(gym.Env):
    """One multi-agent environment.

    Args:
        env: the `pettingzoo.ParallelEnv`.
        task: the task's name.

    Attributes:
        task: the task's spec, with the agents by their types.
        players: PettingZoo's names of the agents, in the order of their places.

    Raises:
        OptionError: the agents' spaces do not fit dense arrays.
    """

    def __init__(self, env: Any, task: str):
        self.env, self.metadata = env, getattr(env, "metadata", {})
        types = _agent_types(env)
        self.players = [agent for agents in types.values() for agent in agents]
        kinds = tuple(
            AgentType(name, len(some), env.observation_space(some[0]), env.action_space(some[0]))
            for name, some in types.items()
        )
        try:
            self.task: TaskSpec = multi_agent_spec(task, kinds)
        except TypeError as error:
            raise OptionError(f"{error} (wrap the environment so that it is)") from None
        self.observation_space, self.action_space = self.task.observation, self.task.action
        self._number = {agent: i for i, agent in enumerate(self.players)}
        self._seen = [(column, column.filler(1)[0]) for column in columns(self.task, "observation")]
        self._acted = columns(self.task, "action")
        self._keyed = {
            which: isinstance(getattr(kinds[0], which), gym.spaces.Dict) for which in ("observation", "action")
        }

    @property
    def render_mode(self) -> str | None:
        return getattr(self.env.unwrapped, "render_mode", None)

    @render_mode.setter
    def render_mode(self, mode: str | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.env.unwrapped.render_mode = mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; returns ``(obs, info)``, each agent's observation in its own place."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return self._observed(obs), self._told(infos, self.env.agents)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step all agents in the game; the episode ends when none is left.

        It counts as truncated if any agent was truncated in the last step; agents truncated then, and not terminated,
        count as alive in ``info["alive"]``.

        Returns:
            ``(obs, reward float32[agents], terminated, truncated, info)``.
        """
        acted = list(self.env.agents)
        obs, rewards, ended, cut, infos = self.env.step({agent: self._action(agent, action) for agent in acted})
        reward = np.zeros(len(self.players), np.float32)
        for agent, earned in rewards.items():
            reward[self._number[agent]] = earned
        alive = [agent for agent in self.env.agents if not (ended.get(agent) or cut.get(agent))]
        terminated = truncated = False
        if not alive:
            truncated = any(cut.get(agent) for agent in acted)
            terminated = not truncated or all(ended.get(agent) for agent in acted)
            alive = [agent for agent in acted if cut.get(agent) and not ended.get(agent)]
        return self._observed(obs), reward, terminated, truncated, self._told(infos, alive)

    def render(self) -> Any:
        """Returns what the PettingZoo environment renders."""
        return self.env.render()

    def close(self) -> None:
        """Close the PettingZoo environment."""
        self.env.close()

    # -- attributes are those of PettingZoo's environment ----------------------------------------

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether the PettingZoo environment or one of its wrappers has this attribute."""
        return hasattr(self.env, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """Returns an attribute of the PettingZoo environment, looked up through its wrappers."""
        return getattr(self.env, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute on the outermost layer that has it; returns whether it was set.

        With ``force``, an attribute that no layer has is set on the outermost one.
        """
        owner = next((part for part in layers(self.env) if name in vars(part)), self.env if force else None)
        if owner is not None:
            setattr(owner, name, value)
        return owner is not None

    # -- between dictionaries and dense rows -----------------------------------------------------

    def _observed(self, obs: Mapping[Any, Any]) -> Any:
        dense: dict[Any, np.ndarray] = {}
        for column, nothing in self._seen:
            rows = dense[column.name] = nothing.copy()
            for i, agent in enumerate(self.players[column.first : column.first + column.count]):
                if agent in obs:
                    rows[i] = self._fitting(obs[agent], agent, column)
        return dense.get(None, dense)

    def _fitting(self, value: Any, agent: Any, column: Column) -> Any:
        if self._keyed["observation"]:
            value = value[column.name]
        if np.shape(value) != column.space.shape:
            raise ValueError(f"what {agent} sees has shape {np.shape(value)}; its space says {column.space.shape}")
        return value

    def _action(self, agent: Any, dense: Any) -> Any:
        i = self._number[agent]
        mine = {c.name: c.of(dense)[i - c.first] for c in self._acted if c.first <= i < c.first + c.count}
        return mine if self._keyed["action"] else next(iter(mine.values()))

    def _told(self, infos: Mapping[Any, Any], alive: Sequence[Any]) -> dict[str, Any]:
        there = np.zeros(len(self.players), np.bool_)
        there[[self._number[agent] for agent in alive]] = True
        return {str(agent): info for agent, info in infos.items() if info} | {"alive": there}


def is_parallel(env: Any) -> bool:
    """Whether this is a PettingZoo environment whose agents act simultaneously.

    Raises:
        OptionError: it is a PettingZoo environment whose agents act in turns.
    """
    if not (hasattr(env, "possible_agents") and callable(getattr(env, "observation_space", None))):
        return False
    if hasattr(env, "agent_iter"):
        raise OptionError(
            f"{env} is a PettingZoo environment whose agents act in turns (AECEnv): a pool's act all at once; "
            "where it has a parallel_env, make that"
        )
    return True


def layers(env: Any) -> Iterator[Any]:
    """Yields an environment and the layers inside its Gymnasium or PettingZoo wrappers, from the outside in."""
    seen: list[Any] = []
    while env is not None and all(env is not each for each in seen):
        yield env
        seen.append(env)
        own = getattr(env, "__dict__", {})
        env = own.get("env", own.get("aec_env"))


def _agent_types(env: Any) -> dict[str, list[Any]]:
    """The possible agents by their names without numbers, such as ``"wolf"`` for ``"wolf_0"``.

    If agents of one such name have different spaces, each agent is a type of its own.
    """
    named: dict[str, list[Any]] = {}
    for agent in env.possible_agents:
        named.setdefault(_identifier(NUMBER.sub("", str(agent))), []).append(agent)
    types: dict[str, list[Any]] = {}
    for name, agents in named.items():
        first = agents[0]
        alike = all(
            env.observation_space(agent) == env.observation_space(first)
            and env.action_space(agent) == env.action_space(first)
            for agent in agents
        )
        types |= {name: agents} if alike else {_identifier(str(agent)): [agent] for agent in agents}
    return types


def _identifier(text: str) -> str:
    word = re.sub(r"\W", "_", text) or "agent"
    return word if word.isidentifier() else f"agent_{word}"
