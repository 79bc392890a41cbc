"""A PettingZoo `ParallelEnv` as a Gymnasium environment with dense rows: one row for every possible agent.

PettingZoo uses dictionaries by agent, from which an agent is missing once it has left. Here each agent of
`possible_agents` has a fixed row, type by type, and ``info["alive"]`` marks the agents in the game, as in all
multi-agent tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.action_masks import MASK, heads_of, mask_array
from headrace.pool.columns import Column, columns
from headrace.pool.executors.processes.values import fitted, flag_of, reward_of
from headrace.pool.spec import AgentType, Field, TaskSpec, multi_agent_spec

BARE = "observation"  # PettingZoo's name of what is seen, where an observation has a mask, too
TRUNCATIONS = "truncations"
NUMBER = re.compile(r"_?\d+$")


class ParallelGame(gym.Env):
    """One multi-agent environment.

    Args:
        env: the `pettingzoo.ParallelEnv`.
        task: the task's name.

    Attributes:
        task: the task's spec, with the agents by their types.
        players: PettingZoo's names of the agents, in the order of their rows.

    Raises:
        OptionError: the agents' spaces do not fit dense arrays.
    """

    def __init__(self, env: Any, task: str):
        self.env, self.metadata = env, getattr(env, "metadata", {})
        if not env.possible_agents:
            raise OptionError(
                f"{task} has possible_agents={env.possible_agents!r}: list the names of all its agents there"
            )
        types = _agent_types(env)
        self.players = [agent for agents in types.values() for agent in agents]
        masked = {name for name, some in types.items() if _has_mask(env, some[0])}
        kinds = tuple(
            AgentType(name, len(some), _observation_space(env, some[0]), env.action_space(some[0]))
            for name, some in types.items()
        )
        self._masked = {agent for name in masked for agent in types[name]}  # agents with action masks in observations
        self._choices = [sum(heads_of(kind.action)) for kind in kinds for _ in range(kind.count)]  # of each agent
        truncations = Field(TRUNCATIONS, np.dtype(np.bool_), (len(self.players),), per_agent=True)
        try:
            self.task: TaskSpec = multi_agent_spec(task, kinds, (truncations,))
        except TypeError as error:
            raise OptionError(f"{error}. Wrap the environment, so that its spaces are such") from None
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
        """Begins an episode; returns ``(obs, info)``, with each agent's observation in its own row."""
        obs, infos = self.env.reset(seed=seed, options=options)
        seen = self._observed(obs)
        _check_whole("observation", obs, self.env.agents or ())
        return seen, self._told(obs, infos, self.env.agents or (), ())

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps all agents in the game; the episode ends when no agent is left.

        It is truncated if any agent was truncated in the last step; agents truncated but not terminated in that step
        count as alive in ``info["alive"]``. ``info["truncations"]`` marks all agents that were truncated in this step.

        Returns:
            ``(obs, reward float32[agents], terminated, truncated, info)``.
        """
        acted = list(self.env.agents or ())
        obs, rewards, ended, cut, infos = self.env.step({agent: self._action(agent, action) for agent in acted})
        seen = self._observed(obs)
        _check_whole("observation", obs, left := list(self.env.agents or ()))
        _check_whole("reward", rewards, [agent for agent in left if agent in acted])
        reward = np.zeros(len(self.players), np.float32)
        for agent, earned in rewards.items():
            reward[self._number[agent]] = reward_of(earned, f"rewards[{agent!r}]")
        ended = {agent: flag_of(over, f"terminations[{agent!r}]") for agent, over in ended.items()}
        cut = {agent: flag_of(over, f"truncations[{agent!r}]") for agent, over in cut.items()}
        alive = [agent for agent in self.env.agents or () if not (ended.get(agent) or cut.get(agent))]
        terminated = truncated = False
        if not alive:
            truncated = any(cut.get(agent) for agent in acted)
            terminated = not truncated or all(ended.get(agent) for agent in acted)
            alive = [agent for agent in acted if cut.get(agent) and not ended.get(agent)]
        cut_off = [agent for agent in acted if cut.get(agent)]
        return seen, reward, terminated, truncated, self._told(obs, infos, alive, cut_off)

    def render(self) -> Any:
        """Returns the rendering of the PettingZoo environment."""
        return self.env.render()

    def close(self) -> None:
        """Closes the PettingZoo environment."""
        self.env.close()

    # -- attributes of PettingZoo's environment --------------------------------------------------

    def has_wrapper_attr(self, name: str) -> bool:
        """Returns whether the PettingZoo environment or one of its wrappers has this attribute."""
        return hasattr(self.env, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """Returns an attribute of the PettingZoo environment, looked up through its wrappers."""
        return getattr(self.env, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Sets an attribute on the outermost layer that has it; returns whether it was set.

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
                if obs.get(agent) is not None:
                    rows[i] = self._fitting(obs[agent], agent, column)
        return dense.get(None, dense)

    def _fitting(self, value: Any, agent: Any, column: Column) -> Any:
        if agent in self._masked and not self._keyed["observation"]:
            value = value[BARE]
        if self._keyed["observation"]:
            value = value[column.name]
        dtype, shape = np.dtype(column.space.dtype), tuple(column.space.shape or ())
        return fitted(value, dtype, shape, f"what {agent} sees")

    def _action(self, agent: Any, dense: Any) -> Any:
        i = self._number[agent]
        mine = {c.name: c.of(dense)[i - c.first] for c in self._acted if c.first <= i < c.first + c.count}
        return mine if self._keyed["action"] else next(iter(mine.values()))

    def _told(
        self, obs: Mapping[Any, Any], infos: Mapping[Any, Any], alive: Sequence[Any], cut_off: Sequence[Any]
    ) -> dict[str, Any]:
        infos = {agent: info for agent, info in (infos or {}).items() if info is not None}
        told: dict[str, Any] = {str(agent): info for agent, info in infos.items() if info}
        if taken := told.keys() & {"alive", TRUNCATIONS, MASK}:
            raise ValueError(f"infos[{min(taken)!r}] is an info field of all agents: give that agent another name")
        told |= {"alive": self._where(alive), TRUNCATIONS: self._where(cut_off)}
        if self._masked or any(MASK in info for info in infos.values()):
            told[MASK] = self._allowed(obs, infos)
        return told

    def _where(self, agents: Sequence[Any]) -> np.ndarray:
        marked = np.zeros(len(self.players), np.bool_)
        marked[[self._number[agent] for agent in agents]] = True
        return marked

    def _allowed(self, obs: Mapping[Any, Any], infos: Mapping[Any, Any]) -> np.ndarray:
        """Returns the action masks int8[agents, choices] in observations or infos; 1 for agents without a mask."""
        allowed = np.ones((len(self.players), max(self._choices)), np.int8)
        for i, (agent, choices) in enumerate(zip(self.players, self._choices, strict=True)):
            told = obs if agent in self._masked else infos
            if not choices or told.get(agent) is None:
                continue
            try:
                allowed[i, :choices] = mask_array(told[agent].get(MASK), (choices,))
            except ValueError as error:
                raise ValueError(f"the action mask of {agent}: {error}") from None
        return allowed


def is_parallel(env: Any) -> bool:
    """Returns whether this is a PettingZoo environment whose agents act simultaneously.

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


def environments(env: Any) -> list[Any]:
    """Returns those of an environment's `layers` that are environments."""
    return [each for each in layers(env) if isinstance(each, gym.Env) or hasattr(each, "possible_agents")]


def check_new(env: Any, known: MutableMapping[int, Any]) -> None:
    """Adds an environment's objects to ``known``, id → object; raises `OptionError` for one that is known already."""
    for each in environments(env):
        if known.get(id(each)) is each:
            name = type(each).__name__
            raise OptionError(
                f"the function returns the same {name} again, so that environments would share its state: "
                f"let each call make a new one, as in  lambda: {name}(…)"
            )
        known[id(each)] = each


def _check_whole(what: str, given: Mapping[Any, Any], agents: Sequence[Any]) -> None:
    """Raises `ValueError` if an agent that is in the game has none of what PettingZoo's dict holds by agent."""
    without = [agent for agent in agents if given.get(agent) is None]
    if without:
        raise ValueError(f"{without[0]!r} is among the agents, but has no {what}")


def _has_mask(env: Any, agent: Any) -> bool:
    """Returns whether an agent's observations are a `Dict` with an action mask, as is PettingZoo's convention."""
    space, choices = env.observation_space(agent), sum(heads_of(env.action_space(agent)))
    return isinstance(space, gym.spaces.Dict) and choices > 0 and getattr(space.get(MASK), "shape", None) == (choices,)


def _observation_space(env: Any, agent: Any) -> gym.Space:
    """Returns an agent's observation space without the action mask; the sub-space ``observation`` if it is the rest."""
    space = env.observation_space(agent)
    if not _has_mask(env, agent):
        return space
    rest = {key: part for key, part in space.spaces.items() if key != MASK}
    return rest[BARE] if rest.keys() == {BARE} else gym.spaces.Dict(rest)


def _agent_types(env: Any) -> dict[str, list[Any]]:
    """Returns the possible agents by their names without numbers, such as ``"wolf"`` for ``"wolf_0"``.

    If agents with the same such name have different spaces, each agent is a separate type.
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
