"""Mapping of the agents of an environment to policies.

An `AgentGroup` describes the agents that one policy controls: their numbers, and the places of their observations and
actions in a pool's arrays. The agents of a group in all environments are the columns of its policy's rollout,
environment by environment; an environment with one agent has one group, whose columns are the environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.action_masks import heads_of
from headrace.pool.actions import ACTION
from headrace.pool.mirror import Mirror
from headrace.pool.spec import TaskSpec
from headrace.train.modules.action_masks import has_masks

AGENTS = "agents"

Agents = slice | np.ndarray | Tensor | None
"""some agents: a slice or the indices of all agents"""


@dataclass(frozen=True)
class Place:
    """The place of some agents in a pool's arrays [.., N, A, …].

    Attributes:
        key: the name of the array of the agents' type if types have separate arrays; otherwise None.
        among: the agents' positions on the array's agent axis; None if there is no such axis.
        whole: whether the agents are all those of the axis, in order, so that columns are a view.
    """

    key: str | None = None
    among: Agents = None
    whole: bool = True


@dataclass(frozen=True)
class AgentGroup:
    """The agents that one policy controls.

    Attributes:
        observation, action: spaces of one agent.
        sees, acts: the places of the agents' observations and actions.
        agents: the agents' numbers among all agents of an environment; None for an environment with one agent.
        width: number of agents.
        types: agent type → the numbers of its agents, if the group has several types; otherwise empty.
        heads: the number of actions of each choice, in a task with action masks; otherwise, and for continuous actions,
            empty.
        mirror: how the task looks in a mirror; None if it does not say, or has several agents.
        critic: the last columns of an observation, float[n], that only a critic sees; 0 for none.
    """

    observation: gym.Space
    action: gym.Space
    sees: Place = Place()
    acts: Place = Place()
    agents: Agents = None
    width: int = 1
    types: Mapping[str, Agents] = field(default_factory=dict)
    heads: tuple[int, ...] = ()
    mirror: Mirror | None = None
    critic: int = 0

    @property
    def acting(self) -> gym.Space:
        """The space of what an actor sees of an observation."""
        if not self.critic:
            return self.observation
        assert isinstance(self.observation, gym.spaces.Box)
        low, high = (bound[: -self.critic] for bound in (self.observation.low, self.observation.high))
        return gym.spaces.Box(low, high, dtype=np.dtype(self.observation.dtype).type)

    def on(self, device: torch.device) -> AgentGroup:
        """Returns the same group with its agents' numbers as tensors on a device, so that indexing needs no copy."""

        def there(agents: Agents) -> Agents:
            return torch.from_numpy(agents).to(device) if isinstance(agents, np.ndarray) else agents

        sees, acts = (replace(place, among=there(place.among)) for place in (self.sees, self.acts))
        types = {name: there(agents) for name, agents in self.types.items()}
        return replace(self, sees=sees, acts=acts, agents=there(self.agents), types=types)

    def columns(self, envs: slice) -> slice:
        """Returns the columns of a slice of environments."""
        if envs == slice(None):
            return envs
        return slice(envs.start * self.width, envs.stop * self.width)

    def of_all(self, values: Tensor, axis: int = 1) -> Tensor:
        """Returns the group's columns of the values of all agents [.., N, A, …], or of environments with one agent."""
        if self.agents is None:
            return values
        return values[(slice(None),) * (axis + 1) + (self.agents,)].flatten(axis, axis + 1)

    def seen(self, observations: Any) -> Any:
        """Returns the observations of the group's agents as columns, from [N, A, …], or [N, …] for one agent."""
        if self.agents is None:
            return observations
        some = observations[:, self.sees.among]
        return some.reshape(-1, *some.shape[2:])

    def put(self, chosen: Any, actions: Mapping[str, Any]) -> None:
        """Writes the actions of the group's columns into the arrays that environments read.

        Args:
            chosen: a tensor or an array of actions, [columns, …].
            actions: array name → actions of all agents, [N, …] or [N, A, …].
        """
        into = actions[ACTION if self.acts.key is None else self.acts.key]
        if self.agents is None:
            into[:] = chosen
            return
        chosen = chosen.reshape(len(into), self.width, *chosen.shape[1:])
        into[:, self.acts.among] = chosen.to(into.dtype) if isinstance(chosen, Tensor) else chosen

    def of_each(self, values: Tensor) -> Tensor:
        """Returns values of environments [T, N] as columns [T, N · width], repeated for each agent of the group."""
        return values if self.agents is None else values.repeat_interleave(self.width, 1)


def policy_mapping(spec: TaskSpec, policies: Mapping[str, Mapping[str, Any]]) -> dict[str, AgentGroup]:
    """Returns policy name → agents.

    Args:
        policies: policy name → its settings, of which ``agents`` are names of agent types or agents' numbers. By
            default each agent type has a policy of its name; the policy of a single agent has the name ``""``.

    Raises:
        OptionError: an agent is unknown, in two groups or in none, or agents of one group have different spaces.
    """
    if not spec.agents:
        if policies:
            raise OptionError(f"{spec.task} has one agent, and so one policy: leave policies out")
        also = {"heads": _heads(spec, spec.action), "mirror": spec.mirror, "critic": spec.critic}
        return {"": AgentGroup(spec.observation, spec.action, **also)}
    wanted = policies or {kind.name: {AGENTS: (kind.name,)} for kind in spec.agents}
    groups = {name: _numbers(spec, name, settings.get(AGENTS, (name,))) for name, settings in wanted.items()}
    taken = np.bincount(np.concatenate(list(groups.values())), minlength=spec.num_agents)
    if (taken != 1).any():
        agent = int(np.flatnonzero(taken != 1)[0])
        raise OptionError(
            f"agent {agent} of {spec.task} must belong to exactly one policy, but belongs to {taken[agent]}"
        )
    return {name: _agent_group(spec, name, numbers) for name, numbers in groups.items()}


def _numbers(spec: TaskSpec, policy: str, agents: Sequence[str | int]) -> np.ndarray:
    """Returns the numbers of the agents that are named by type or number, int64[k]."""
    starts = np.cumsum([0, *(kind.count for kind in spec.agents)])
    ranges = {kind.name: np.arange(a, a + kind.count) for kind, a in zip(spec.agents, starts, strict=False)}
    numbers: list[int] = []
    known = f"{', '.join(ranges)}, or a number below {spec.num_agents}"
    if not isinstance(agents, list | tuple):
        raise OptionError(f"policy {policy!r} has agents={agents!r}, which must be a list: {spec.task} has {known}")
    for agent in agents:
        if isinstance(agent, str) and agent in ranges:
            numbers += ranges[agent].tolist()
        elif isinstance(agent, int) and 0 <= agent < spec.num_agents:
            numbers.append(agent)
        else:
            raise OptionError(f"policy {policy!r} has an agent {agent!r}; {spec.task} has {known}")
    if not numbers:
        raise OptionError(f"policy {policy!r} has no agents")
    return np.array(numbers)


def _agent_group(spec: TaskSpec, policy: str, numbers: np.ndarray) -> AgentGroup:
    starts = np.cumsum([0, *(kind.count for kind in spec.agents)])
    kind_of = np.searchsorted(starts, numbers, "right") - 1
    kinds = np.unique(kind_of)
    first = spec.agents[kinds[0]]
    for kind in (spec.agents[k] for k in kinds[1:]):
        if (kind.observation, kind.action) != (first.observation, first.action):
            raise OptionError(f"policy {policy!r} has agents of different spaces: {first.name} and {kind.name}")
    inside = numbers - starts[kinds[0]]

    def place(space: gym.Space) -> Place:
        apart = isinstance(space, gym.spaces.Dict)
        among, size = (inside, first.count) if apart else (numbers, spec.num_agents)
        whole = len(among) == size and bool((among == np.arange(size)).all())
        return Place(first.name if apart else None, _slice(among), whole)

    types = {spec.agents[k].name: _slice(numbers[kind_of == k]) for k in kinds}
    return AgentGroup(
        first.observation,
        first.action,
        place(spec.observation),
        place(spec.action),
        _slice(numbers),
        len(numbers),
        types if len(types) > 1 else {},
        _heads(spec, first.action),
    )


def _heads(spec: TaskSpec, action: gym.Space) -> tuple[int, ...]:
    return heads_of(action) if has_masks(spec) else ()


def _slice(numbers: np.ndarray) -> slice | np.ndarray:
    """Returns the numbers as a slice if they are consecutive, so that indexing makes views."""
    if (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
