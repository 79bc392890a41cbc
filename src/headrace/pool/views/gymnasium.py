"""A pool as Gymnasium knows environments: `VectorEnv` for many, `Env` for one.

Stepping goes straight to the pool; what this module adds is Gymnasium's bookkeeping:
batched spaces, the autoreset mode in the instance's metadata, ``reset_mask``, and
final observations as an object array with None where no episode ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from headrace.errors import OptionError
from headrace.pool.batch import Batch
from headrace.pool.pool import Pool, StepResult
from headrace.pool.registry import make_pool
from headrace.pool.seeds import SeedLike

MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


class GymnasiumPool(gym.vector.VectorEnv):
    """A pool as a `gymnasium.vector.VectorEnv`.

    Observation and action space are batched over ``batch_size`` rows. An asynchronous pool keeps the
    pool's `send` and `recv`; its `step` returns the rows that finish first.

    Args:
        pool: the pool to present; closed with this object.
        render_mode: None or ``"rgb_array"``, in which case `render` returns one frame an environment.
    """

    def __init__(self, pool: Pool, render_mode: str | None = None):
        self.pool = pool
        self.num_envs = pool.num_envs
        self.render_mode = render_mode
        self.metadata = {**GymnasiumEnv.metadata, "autoreset_mode": MODES[pool.autoreset]}
        self.single_observation_space = pool.observation_space
        self.single_action_space = pool.action_space
        self.observation_space = batch_space(pool.observation_space, pool.batch_size)
        self.action_space = batch_space(pool.action_space, pool.batch_size)
        self.config = pool.config
        self.send, self.async_reset = pool.send, pool.async_reset
        self.save_state, self.load_state, self.make_batch = pool.save_state, pool.load_state, pool.make_batch
        self._seen: list[tuple[Any, np.ndarray]] = []  # observations and env_ids: of all environments, the newest

    @property
    def is_async(self) -> bool:
        return self.pool.is_async

    @property
    def all_env_ids(self) -> np.ndarray:
        return self.pool.all_env_ids

    def __len__(self) -> int:
        return self.num_envs

    def reset(
        self, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None, env_id: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes; with ``options={"reset_mask": …}`` only there.

        With a mask every environment has a row: those not reset the last observation (zeros before their first),
        and in ``info`` zeros, where as everywhere in Gymnasium ``_<key>`` says which rows have a value.
        """
        obs, info = self.pool.reset(env_id, seed=seed, options=options)
        if self.is_async:
            return obs, info
        ids = info["env_id"]
        self._remember(obs, ids)
        if options and options.get("reset_mask") is not None:
            there = np.isin(self.all_env_ids, ids)
            info = self._whole((info, ids)) | {f"_{key}": there for key in info}
            info["env_id"] = info["players"]["env_id"] = self.all_env_ids
            info["_env_id"] = info["_players"] = np.ones(self.num_envs, np.bool_)
            return self._whole(*self._seen), info
        return obs, info

    def step(self, actions: Any, env_id: Any = None, *, out: Batch | None = None) -> StepResult:
        """One agent step; see `Pool.step`."""
        return self._returned(self.pool.step(actions, env_id, out=out))

    def recv(self, timeout: float | None = None, *, reset: bool = False, return_info: bool = True) -> Any:
        """The next results of an asynchronous pool; see `Pool.recv`."""
        result = self.pool.recv(timeout, reset=reset, return_info=return_info)
        return result if reset else self._returned(result)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """One RGB frame uint8[height, width, 3] for each environment, with ``render_mode="rgb_array"``."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self.pool.render(self.pool.all_env_ids))

    def close_extras(self, **kwargs: Any) -> None:
        self.pool.close()

    def __reduce__(self) -> Any:
        return GymnasiumPool, (self.pool, self.render_mode)

    def _returned(self, result: StepResult) -> StepResult:
        obs, reward, terminated, truncated, info = result
        if not self.is_async:
            self._remember(obs, info["env_id"])
        if "final_obs" in info:
            done = info["_final_obs"]
            final = np.full(len(done), None, object)
            for row in np.flatnonzero(done):
                final[row] = _row(info["final_obs"], row)
            info["final_obs"] = final
            info["final_info"] |= {f"_{key}": done for key in info["final_info"]}
        return obs, reward, terminated, truncated, info

    def _remember(self, obs: Any, ids: np.ndarray) -> None:
        """Keep every environment's newest observation, for `reset`; where these are of all, without a copy."""
        if len(ids) < self.num_envs:
            obs, ids = self._whole(*self._seen, (obs, ids)), self.all_env_ids
        self._seen = [(obs, ids)]

    def _whole(self, *parts: tuple[Any, np.ndarray]) -> Any:
        """A row for every environment from (rows, env_ids), later ones over earlier ones; zeros for all others."""
        first = parts[0][0]
        if isinstance(first, dict):
            return {key: self._whole(*((rows[key], ids) for rows, ids in parts)) for key in first}
        whole = np.zeros((self.num_envs, *first.shape[1:]), first.dtype)
        for rows, ids in parts:
            whole[ids] = rows
        return whole


class GymnasiumEnv(gym.Env):
    """One environment of a task as a `gymnasium.Env`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(self, task: str, render_mode: str | None = None, **options: Any):
        if options.get("num_envs", 1) != 1:
            raise OptionError("gymnasium.make makes one environment: use gymnasium.make_vec for more")
        if "autoreset" in options:
            raise OptionError("gymnasium.make makes an environment that its user resets: autoreset is for make_vec")
        self.pool = make_pool(task, autoreset="disabled", **options)
        self.render_mode = render_mode
        self.observation_space = self.pool.observation_space
        self.action_space = self.pool.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        obs, info = self.pool.reset(seed=seed)
        return _row(obs, 0), _row(info, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        one = (
            {k: np.asarray(v)[None] for k, v in action.items()}
            if isinstance(action, dict)
            else np.asarray(action)[None]
        )
        obs, reward, terminated, truncated, info = self.pool.step(one)
        earned = float(reward[0]) if reward.ndim == 1 else reward[0]
        return _row(obs, 0), earned, bool(terminated[0]), bool(truncated[0]), _row(info, 0)

    def render(self) -> Any:
        return self.pool.render()[0] if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.pool.close()


def _row(value: Any, row: Any) -> Any:
    return {k: _row(v, row) for k, v in value.items()} if isinstance(value, dict) else value[row]


def make_vector(task: str, num_envs: int = 1, render_mode: str | None = None, **options: Any) -> GymnasiumPool:
    """What ``gymnasium.make_vec("headrace:headrace/…")`` calls."""
    return GymnasiumPool(make_pool(task, num_envs, **options), render_mode)


def register_with_gymnasium(tasks: list[str]) -> None:
    """Make tasks known to Gymnasium as ``headrace/<task>``, for `gymnasium.make` and `make_vec`."""
    for task in tasks:
        if f"headrace/{task}" not in gym.registry:
            gym.register(
                id=f"headrace/{task}",
                entry_point="headrace.pool.views.gymnasium:GymnasiumEnv",
                vector_entry_point="headrace.pool.views.gymnasium:make_vector",
                kwargs={"task": task},
            )
