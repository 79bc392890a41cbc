"""What a task is (its spaces and info fields) and how a pool of it is set up.

These frozen records are the whole contract between the user-facing pool, the
executors and the task families: a family describes a task with a `TaskSpec`, the
user's common options become `PoolSettings`, and both are handed to an executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from headrace.pool.batch import BatchRing
    from headrace.pool.executor import Executor

AutoresetMode = Literal["next_step", "same_step", "disabled"]


@dataclass(frozen=True)
class Field:
    """One named array of a batch; row i belongs to one environment."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class TaskSpec:
    """What one environment of a task observes, accepts and reports.

    Attributes:
        task: the registered name, such as ``"Pong-v5"``.
        observation: space of one environment's observation, a `Box`, `Discrete`, or a flat `Dict` of those.
        action: space of one environment's action, `Discrete`, `MultiDiscrete` or `Box`.
        info: arrays that come with every step, beside ``env_id`` and ``elapsed_step``.
        max_episode_steps: an episode is truncated after so many agent steps; 0 for never.
        frame_skip: simulator frames in one agent step, for reporting frames/s.
        options: the task's own options, defaults filled in.
    """

    task: str
    observation: gym.Space
    action: gym.Space
    info: tuple[Field, ...] = ()
    max_episode_steps: int = 0
    frame_skip: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def observation_space(self) -> gym.Space:
        """EnvPool's name for `observation`."""
        return self.observation

    @property
    def action_space(self) -> gym.Space:
        """EnvPool's name for `action`."""
        return self.action

    @property
    def config(self) -> dict[str, Any]:
        """EnvPool's name for the options."""
        return {"max_episode_steps": self.max_episode_steps, **self.options}


@dataclass(frozen=True)
class PoolSettings:
    """The options that every task shares, checked and completed.

    Attributes:
        num_envs: environments in the pool, N.
        batch_size: rows that `recv` returns, B; ``B == N`` is a synchronous pool.
        num_threads: threads that advance environments, the caller's own included when synchronous.
        seeds: uint64[N], one stream for each environment.
        autoreset: one of Gymnasium's three modes.
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
        return self.batch_size < self.num_envs


@dataclass(frozen=True)
class Task:
    """A task ready to be pooled: its spec, and how to build the executor that runs it."""

    spec: TaskSpec
    make_executor: Callable[[TaskSpec, PoolSettings, BatchRing], Executor]
