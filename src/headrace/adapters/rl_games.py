"""Registers tasks with rl_games, for use in its configurations.

>>> from headrace.adapters import rl_games
>>> rl_games.register("ant", "Ant-v5")  # for env_name: ant in the configuration
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.adapters.tensors import AnyPool, check_pool, given, kept
from headrace.errors import OptionError
from headrace.pool.pool import Pool
from headrace.pool.registry import TaskLike
from headrace.pool.spec import TaskSpec
from headrace.pool.views.make import make

try:
    from rl_games.common import env_configurations, vecenv
    from rl_games.common.ivecenv import IVecEnv
except ImportError as error:
    raise ImportError(f"this adapter needs rl_games ({error}): pip install rl_games") from error

VECENV = "HEADRACE"


def register(name: str, task: TaskLike, **options: Any) -> None:
    """Registers a task with rl_games under a name, for ``env_name`` in its configurations.

    The configuration's ``num_actors`` is the number of environments; its ``env_config``, which also holds rl_games'
    seed, overrides the options given here. Players of rl_games get a pool of one environment.

    Args:
        name: the name in configurations.
        task, options: as in `headrace.make`. With ``device="cuda:0"`` environments run on that device, and no data are
            copied to the host.
    """

    def made(num_actors: int, **config: Any) -> HeadraceVecEnv:
        pool: Any = make(task, num_envs=num_actors, autoreset="same_step", **{**options, **config})
        try:
            return HeadraceVecEnv(pool)
        except OptionError:
            pool.close()
            raise

    vecenv.register(VECENV, _vector)
    env_configurations.register(name, {"vecenv_type": VECENV, "env_creator": partial(made, 1), "made": made})


def _vector(name: str, num_actors: int, **config: Any) -> HeadraceVecEnv:
    return env_configurations.configurations[name]["made"](num_actors, **config)


class HeadraceVecEnv(IVecEnv):
    """A pool as rl_games' vector of environments.

    Results of a `make_torch` pool stay on its device; rl_games copies arrays of other pools to its own device. Pixels
    are uint8, channels first; other observations are one row of floats, with discrete values one-hot and the parts of a
    `Dict` space concatenated. ``infos["time_outs"]`` marks truncated episodes, for ``value_bootstrap``. In a
    multi-agent task, whose agents must have equal spaces, each agent has a row, ordered by environment.

    Args:
        pool: a pool from `headrace.make` or `make_torch`, made with ``autoreset="same_step"``.

    Raises:
        OptionError: the pool is asynchronous, has another autoreset mode, or has a space that rl_games does not
            support.
    """

    def __init__(self, pool: AnyPool):
        check_pool(pool, "rl_games")
        self.pool, self._agents = pool, pool.spec.num_agents
        observed, acted = _spaces(pool.spec)
        self._parts: dict[Any, gym.Space] = {None: observed}
        if isinstance(observed, gym.spaces.Dict):
            self._parts = dict(observed.spaces)
        self.observation_space, self.action_space = _observation_space(pool.spec.task, self._parts), acted

    def reset(self) -> Any:
        """Begins new episodes; returns one row of observations for each agent."""
        obs, _ = self.pool.reset()
        return self._array(self._rows(obs))

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Steps all environments with actions [rows, …]; returns observations, rewards, dones and infos.

        There is one row for each agent: rewards are float32[rows], dones bool[rows].
        """
        action = torch.as_tensor(actions).reshape(self.pool.num_envs, -1)
        obs, reward, terminated, truncated, info = self.pool.step(given(self.pool, action))
        over, cut = (kept(flags).repeat_interleave(self._agents) for flags in (terminated, truncated))
        infos = {**info, "time_outs": self._array(cut & ~over)}
        return self._array(self._rows(obs)), self._array(kept(reward).flatten()), self._array(over | cut), infos

    def get_number_of_agents(self) -> int:  # type: ignore[override]
        return self._agents

    def get_env_info(self) -> dict[str, Any]:  # type: ignore[override]
        """Returns the spaces of one agent, and the number of agents of an environment, by rl_games' names."""
        spaces = {"observation_space": self.observation_space, "action_space": self.action_space}
        return spaces | {"agents": self._agents, "value_size": 1}

    def close(self) -> None:
        self.pool.close()

    def _rows(self, obs: Any) -> torch.Tensor:
        found = [self._part(space, kept(obs if key is None else obs[key])) for key, space in self._parts.items()]
        return found[0] if len(found) == 1 else torch.cat([part.flatten(1) for part in found], 1)

    def _part(self, space: gym.Space, array: torch.Tensor) -> torch.Tensor:
        array = array.reshape(self.pool.num_envs * self._agents, *(space.shape or ()))
        if isinstance(space, gym.spaces.Discrete):
            array = array[:, None] == torch.arange(int(space.n), device=array.device) + int(space.start)
        return array if array.dtype == torch.uint8 else array.float()

    def _array(self, tensor: torch.Tensor) -> Any:
        return tensor.numpy() if isinstance(self.pool, Pool) else tensor


def _spaces(spec: TaskSpec) -> tuple[gym.Space, gym.Space]:
    """Returns the observation and action space of one agent; raises `OptionError` for unsupported ones."""
    kinds: Any = spec.agents or (spec,)
    observed, acted = kinds[0].observation, kinds[0].action
    if any(kind.observation != observed or kind.action != acted for kind in kinds):
        raise OptionError(f"{spec.task} has agents whose spaces differ, which have no place in rl_games")
    if isinstance(acted, gym.spaces.MultiDiscrete) and acted.nvec.ndim == 1 and not acted.start.any():
        acted = gym.spaces.Tuple(tuple(gym.spaces.Discrete(int(n)) for n in acted.nvec))
    elif not isinstance(acted, gym.spaces.Box) and not (isinstance(acted, gym.spaces.Discrete) and acted.start == 0):
        raise OptionError(f"{spec.task} has actions of {acted}, which have no place in rl_games")
    return observed, acted


def _observation_space(task: str, parts: dict[Any, gym.Space]) -> gym.Space:
    for space in parts.values():
        if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
            raise OptionError(f"{task} has observations of {space}, which have no place in rl_games")
    first = next(iter(parts.values()))
    if len(parts) == 1 and isinstance(first, gym.spaces.Box):
        if first.dtype == np.uint8:
            return first
        return gym.spaces.Box(first.low.astype(np.float32), first.high.astype(np.float32), first.shape, np.float32)
    return gym.spaces.Box(-np.inf, np.inf, (sum(map(gym.spaces.flatdim, parts.values())),), np.float32)
