"""A pool as a `dm_env.Environment`, in the batched form that EnvPool introduced.

A `TimeStep` holds arrays with the batch first; its observation is a named tuple of the
observation's fields and of everything that would be in Gymnasium's info.
"""

from __future__ import annotations

import re
from collections import namedtuple
from typing import Any

import dm_env
import gymnasium as gym
import numpy as np
from dm_env import specs

from headrace.errors import OptionError
from headrace.pool.pool import Pool
from headrace.pool.spec import TaskSpec

Players = namedtuple("Players", ["env_id"])


class DmPool(dm_env.Environment):
    """A pool as a `dm_env.Environment`; ``reset`` and ``step`` return a batched `dm_env.TimeStep`.

    ``step_type`` is int32[k], ``reward`` and ``discount`` float32[k]; ``observation`` is a named tuple
    with ``obs`` (or the keys of a `Dict` space), ``env_id``, ``players``, and the task's info fields.
    The discount is 0 where an episode terminated, 1 elsewhere, unless the task reports its own.

    Args:
        pool: the pool to present; closed with this object.

    Raises:
        OptionError: the pool resets within a step, for which `dm_env` has no words.
    """

    def __init__(self, pool: Pool):
        if pool.autoreset == "same_step":
            raise OptionError("autoreset must be 'next_step' or 'disabled': in dm_env a first step stands by itself")
        self.pool = pool
        self.spec, self.config = pool.spec, pool.config
        self.num_envs, self.is_async, self.all_env_ids = pool.num_envs, pool.is_async, pool.all_env_ids
        self.send, self.async_reset, self.render = pool.send, pool.async_reset, pool.render
        self._observation_spec = _observation_spec(pool.spec)
        self._state = type(self._observation_spec)

    def __len__(self) -> int:
        return self.num_envs

    def observation_spec(self) -> Any:
        """Specs of one environment's observation, in a named tuple like the observation itself."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """Spec of one environment's action; a dict of them for a `Dict` space."""
        space = self.pool.action_space
        if isinstance(space, gym.spaces.Dict):
            return {key: _spec_of(sub, key) for key, sub in space.spaces.items()}
        return _spec_of(space, "action")

    def reward_spec(self) -> specs.Array:
        return specs.Array(self.pool.spec.reward_shape, np.float32, "reward")

    def discount_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")

    def reset(self, env_id: Any = None) -> dm_env.TimeStep:
        """Start new episodes in all environments, or those named."""
        obs, info = self.pool.reset(env_id)
        zero = np.zeros((len(info["env_id"]), *self.pool.spec.reward_shape), np.float32)
        never = np.zeros(len(zero), np.bool_)
        return self._time_step(obs, zero, never, never, info)

    def step(self, action: Any, env_id: Any = None) -> dm_env.TimeStep:
        """Advance all environments, or those named, by one agent step."""
        return self._time_step(*self.pool.step(action, env_id))

    def recv(self, timeout: float | None = None) -> dm_env.TimeStep:
        """The next results of an asynchronous pool."""
        return self._time_step(*self.pool.recv(timeout))

    def close(self) -> None:
        self.pool.close()

    def _time_step(
        self, obs: Any, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]
    ) -> dm_env.TimeStep:
        first, last = int(dm_env.StepType.FIRST), int(dm_env.StepType.LAST)
        step_type = np.full(len(reward), int(dm_env.StepType.MID), np.int32)
        step_type[info["elapsed_step"] == 0] = first
        step_type[terminated | truncated] = last
        discount = info.get("discount", 1.0 - terminated).astype(np.float32)
        fields = obs if isinstance(obs, dict) else {"obs": obs}
        values = {**fields, **info, "players": Players(info["env_id"])}
        state = self._state(*(values[key] for key in self._state.keys))
        return dm_env.TimeStep(step_type, reward, discount, state)  # type: ignore[arg-type]


def _observation_spec(spec: TaskSpec) -> Any:
    """A named tuple of specs: observation fields, env_id, players, elapsed_step, infos."""
    space = spec.observation
    fields = dict(space.spaces) if isinstance(space, gym.spaces.Dict) else {"obs": space}
    number = specs.Array((), np.int32, "env_id")
    found = {key: _spec_of(sub, key) for key, sub in fields.items()}
    found |= {"env_id": number, "players": Players(number), "elapsed_step": specs.Array((), np.int32, "elapsed_step")}
    found |= {f.name: specs.Array(f.shape, f.dtype, f.name) for f in spec.info}
    state = namedtuple("State", [re.sub(r"\W", "_", key) for key in found])
    state.keys = tuple(found)  # type: ignore[attr-defined]
    return state(*found.values())


def _spec_of(space: gym.Space, name: str) -> specs.Array:
    dtype: Any = space.dtype
    if isinstance(space, gym.spaces.Discrete) and space.start == 0:
        return specs.DiscreteArray(int(space.n), dtype, name)
    if isinstance(space, gym.spaces.Discrete):
        return specs.BoundedArray((), dtype, space.start, space.start + space.n - 1, name)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return specs.BoundedArray(space.shape, dtype, space.start, space.start + space.nvec - 1, name)
    assert isinstance(space, gym.spaces.Box)
    return specs.BoundedArray(space.shape, dtype, space.low, space.high, name)
