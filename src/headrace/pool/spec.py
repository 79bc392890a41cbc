"""The description of one environment of a task (spaces, info fields) and the options that all pools share.

Each task has a `TaskSpec`, and the options that every task shares form `PoolSettings`; both are passed to the executor
that the `Task` builds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space

from headrace.errors import OptionError
from headrace.pool.mirror import Mirror
from headrace.pool.signals import NO_SIGNALS, Signals

AutoresetMode = Literal["next_step", "same_step", "disabled"]
ARRAYS = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
MOST_ENVS = 2**24
MOST_THREADS = 1024
LAST_CORE = 2**16 - 1
CRITIC = "critic"
"""the key of the part of an observation that only a critic sees, and the option that says whether there is one"""
POOL_OPTIONS = tuple(
    "num_envs batch_size num_threads seed autoreset device thread_affinity_offset max_num_players".split()
)  # options of pools of any task
RESERVED = {"action", "alive", "elapsed_step", "env_id", "players"}


@dataclass(frozen=True)
class Field:
    """One named array of a batch; row i belongs to one environment.

    Attributes:
        name: the array's name in the batch.
        dtype: the dtype of its elements.
        shape: the shape of one environment's row.
        per_agent: whether the row's first dimension counts the agents of a multi-agent environment.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...] = ()
    per_agent: bool = False


@dataclass(frozen=True)
class AgentType:
    """The agents of a multi-agent environment that share a role and spaces.

    Attributes:
        name: an identifier, such as ``"tagger"``.
        count: number of such agents in one environment.
        observation, action: spaces of one agent.
    """

    name: str
    count: int
    observation: gym.Space
    action: gym.Space


@dataclass(frozen=True)
class TaskSpec:
    """The observations, actions and info of one environment of a task.

    The agents of a multi-agent environment have a fixed order, type by type, and their data are dense arrays
    [agents, …] for each environment: one observation and one action array for all agents if their spaces are equal,
    otherwise one for each type, by its name (`multi_agent_spec`); a reward for each agent; and ``info["alive"]``.
    Episodes begin and end for all agents together.

    Attributes:
        task: the registered name, such as ``"Pong-v5"``.
        observation: space of one environment's observation, a `Box`, `Discrete`, or a flat `Dict` of those.
        action: space of one environment's action, `Discrete`, `MultiDiscrete`, `Box`, or a flat `Dict` of those.
        info: the info fields of every step, in addition to ``env_id`` and ``elapsed_step``.
        max_episode_steps: number of agent steps after which an episode is truncated; 0 for no limit.
        frame_skip: number of simulator frames in one agent step, for reporting frames/s.
        options: the task's own options, defaults filled in.
        agents: the agent types of a multi-agent environment; empty for one agent.
        render_fps: agent steps per second at which rendered frames show real time, or a natural speed.
        metrics: names of info fields whose numbers with an episode's last step a training run reports.
        mirror: how the task looks in a mirror, in which it is the same task; None if it says nothing of that.
        steering: what a person may command who watches: label → least and greatest value, of a column of the state
            array ``command`` [N, k].
        signals: what the numbers of observations and actions are, as an exported policy's contract says.
        critic: the last columns of an observation that only a critic sees, of one array [n]; 0 for none.
        kind: the family of tasks, such as ``"robots"``, whose recipe fits a task that belongs to none.

    Raises:
        OptionError: ``max_episode_steps`` is negative.
    """

    task: str
    observation: gym.Space
    action: gym.Space
    info: tuple[Field, ...] = ()
    max_episode_steps: int = 0
    frame_skip: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    agents: tuple[AgentType, ...] = ()
    render_fps: float = 30.0
    metrics: tuple[str, ...] = ()
    mirror: Mirror | None = None
    critic: int = 0
    kind: str = ""
    steering: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    signals: Signals = NO_SIGNALS

    def __post_init__(self) -> None:
        if self.max_episode_steps < 0:
            what = "an integer of at least 0, 0 for no limit"
            raise OptionError(f"max_episode_steps of {self.task} must be {what}, not {self.max_episode_steps!r}")

    def declares(self, name: str) -> bool:
        """Returns whether the task has an info field of this name, which then has the meaning that pools give it.

        An environment that is a Python object may have a key of the same name in its info, which means what it likes.
        """
        return any(f.name == name for f in self.info)

    @property
    def num_agents(self) -> int:
        """The number of agents of one environment; 1 for a single-agent environment."""
        return sum(kind.count for kind in self.agents) if self.agents else 1

    @property
    def reward_shape(self) -> tuple[int, ...]:
        """The shape of one environment's reward: ``()``, or ``(num_agents,)`` for a multi-agent environment."""
        return (self.num_agents,) if self.agents else ()


def multi_agent_spec(task: str, agents: tuple[AgentType, ...], info: tuple[Field, ...] = (), **more: Any) -> TaskSpec:
    """Returns the spec of a multi-agent task: the agents' spaces joined, and ``alive`` bool[num_agents] in info.

    Args:
        task: the registered name.
        agents: the agent types, in order.
        info: further info fields.
        more: other attributes of `TaskSpec`.

    Raises:
        TypeError: the agent types, their spaces or the info fields are invalid; the message says which.
    """
    if not agents or any(kind.count < 1 or not kind.name.isidentifier() for kind in agents):
        raise TypeError(f"{task} needs agent types, each with a name that is an identifier and at least one agent")
    names = [kind.name for kind in agents]
    if len(set(names)) != len(names):
        raise TypeError(f"{task} has two agent types of one name")
    if taken := RESERVED.intersection(names):
        raise TypeError(f"{task}: an agent type cannot be called {min(taken)!r}, which names something else in a batch")
    count = sum(kind.count for kind in agents)
    for f in info:
        if f.name in RESERVED or (f.per_agent and f.shape[:1] != (count,)):
            raise TypeError(f"{task}: {f} needs another name, or a shape with {count} agents first")
    return TaskSpec(
        task=task,
        observation=_joined(task, [(kind.name, kind.observation, kind.count) for kind in agents]),
        action=_joined(task, [(kind.name, kind.action, kind.count) for kind in agents]),
        info=(Field("alive", np.dtype(np.bool_), (count,), per_agent=True), *info),
        agents=agents,
        **more,
    )


def _joined(task: str, spaces: list[tuple[str, gym.Space, int]]) -> gym.Space:
    """Returns one space for all agents if their spaces are equal, else a `Dict` with one for each type."""
    first = spaces[0][1]
    alike = all(space == first for _, space, _ in spaces)
    for name, space, _ in spaces:
        parts = space.spaces.values() if isinstance(space, gym.spaces.Dict) and alike else (space,)
        if not all(isinstance(part, ARRAYS) for part in parts):
            raise TypeError(f"{task}: {name}'s space must be one array, or a flat Dict that all types have: {space}")
    if alike:
        return _many(first, sum(count for *_, count in spaces))
    return gym.spaces.Dict({name: _many(space, count) for name, space, count in spaces})


def _many(space: gym.Space, count: int) -> gym.Space:
    """Returns the space of ``count`` agents; discrete spaces become `MultiDiscrete`, which keeps their bounds."""
    if isinstance(space, gym.spaces.Dict):
        return gym.spaces.Dict({key: _many(sub, count) for key, sub in space.spaces.items()})
    if isinstance(space, gym.spaces.Discrete):
        n, start, dtype = np.full(count, space.n), np.full(count, space.start), space.dtype
    elif isinstance(space, gym.spaces.MultiDiscrete):
        n, start, dtype = np.stack([space.nvec] * count), np.stack([space.start] * count), space.dtype
    else:
        return batch_space(space, count)
    return gym.spaces.MultiDiscrete(n, np.dtype(dtype).type, start=start)


def subspaces(space: gym.Space, name: str = "") -> dict[str, gym.Space]:
    """Returns the spaces of a `Dict` by their keys; any other space under ``name``."""
    return dict(space.spaces) if isinstance(space, gym.spaces.Dict) else {name: space}


def bounds(space: gym.Space) -> tuple[Any, Any]:
    """Returns the lowest and highest values of a space of one array, as scalars or for each element."""
    if isinstance(space, gym.spaces.Box):
        return space.low, space.high
    if isinstance(space, gym.spaces.Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return (0, 1) if isinstance(space, gym.spaces.MultiBinary) else (-np.inf, np.inf)


@dataclass(frozen=True)
class PoolSettings:
    """The options that every task shares, checked and completed.

    Attributes:
        num_envs: number of environments in the pool, N.
        batch_size: number of rows that `recv` returns, B; the pool is synchronous if ``B == N``.
        num_threads: number of threads that advance environments, including the calling thread of a synchronous pool.
        seeds: uint64[N], the seed of each environment's random stream.
        autoreset: one of Gymnasium's three autoreset modes.
        device: ``"cpu"`` or ``"cuda:i"``.
        thread_affinity_offset: first core that threads are pinned to, or -1 for no pinning.
    """

    num_envs: int
    batch_size: int
    num_threads: int
    seeds: np.ndarray
    autoreset: AutoresetMode = "next_step"
    device: str = "cpu"
    thread_affinity_offset: int = -1

    @property
    def is_async(self) -> bool:
        """Whether the pool is asynchronous: ``batch_size < num_envs``."""
        return self.batch_size < self.num_envs
