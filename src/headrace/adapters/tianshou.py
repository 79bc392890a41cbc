"""Pools as Tianshou's vector environments, for its `Collector` and `AsyncCollector`.

>>> from headrace.adapters import tianshou
>>> env = tianshou.make_venv("CartPole-v1", 8, seed=0)  # for a Collector
>>> env = tianshou.make_venv("Pong-v5", 8, wait_num=4)  # for an AsyncCollector: steps return the 4 first results
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError, SequenceError
from headrace.pool.infos import by_row
from headrace.pool.make_pool import check_int, make_pool
from headrace.pool.pool import Pool
from headrace.pool.registry import TaskLike
from headrace.pool.seeds import SeedLike

try:
    from tianshou.env import BaseVectorEnv
except ImportError as error:
    raise ImportError(f"this adapter needs Tianshou ({error}): pip install 'headrace[libraries]'") from error

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def make_venv(task_id: TaskLike, num_envs: int = 1, wait_num: int | None = None, **options: Any) -> PoolVectorEnv:
    """Returns a pool as a Tianshou vector environment.

    Args:
        task_id: the task, as in `headrace.make`: a name, or a class or function that makes a `gymnasium.Env`.
        num_envs: number of environments in the pool.
        wait_num: number of environments that a step waits for, by default all; fewer need an `AsyncCollector`.
        options: the pool's options and the task's own, as in `headrace.make`.

    Raises:
        UnknownTaskError, OptionError: as in `headrace.make`; or Tianshou does not support an option.
    """
    for name in ("batch_size", "autoreset"):
        if name in options:
            raise OptionError(f"{name} is not for Tianshou: say wait_num, and its collectors reset what has finished")
    check_int("num_envs", num_envs, 1)
    check_int("wait_num", num_envs if wait_num is None else wait_num, 1, num_envs)
    one = wait_num is not None and wait_num < num_envs
    pool = make_pool(task_id, num_envs=num_envs, batch_size=int(one), autoreset="disabled", **options)
    try:
        return PoolVectorEnv(pool, wait_num)
    except OptionError:
        pool.close()
        raise


class PoolVectorEnv(BaseVectorEnv):
    """A pool without autoreset as a `BaseVectorEnv`.

    Infos are an array of dicts, with the task's info fields, ``elapsed_step`` and ``env_id``. Observations of a `Dict`
    space are an array of dicts, as in Tianshou's own vector environments.

    Args:
        pool: a synchronous pool; or an asynchronous one with batch size 1, of which a step collects ``wait_num``
            results; closed with this object.
        wait_num: number of environments that a step waits for; all by default.

    Raises:
        OptionError: the pool has another autoreset mode than ``"disabled"``, is on a GPU, has another batch size, or
            its observations are tuples.
    """

    def __init__(self, pool: Pool, wait_num: int | None = None):
        wait_num = pool.num_envs if wait_num is None else wait_num
        if pool.autoreset != "disabled" or pool.device != "cpu":
            raise OptionError(f"Tianshou needs a pool on the CPU with autoreset='disabled': not {pool}")
        if isinstance(pool.observation_space, gym.spaces.Tuple):
            raise OptionError(f"{pool.spec.task} observes tuples, which Tianshou has not: make them a dict")
        check_int("wait_num", wait_num, 1, pool.num_envs)
        if pool.is_async != (wait_num < pool.num_envs) or (pool.is_async and pool.batch_size != 1):
            raise OptionError(
                f"wait_num={wait_num} needs a pool with batch_size={int(wait_num < pool.num_envs)}: not {pool}"
            )
        self.pool = pool
        self.env_num, self.wait_num, self.is_async = pool.num_envs, wait_num, pool.is_async
        self.is_closed = False
        self.waiting_id: list[int] = []  # environments whose step is in flight, in the order sent
        self.ready_id = list(range(pool.num_envs))  # environments that may be stepped or reset
        self._early: list[Any] = []  # results of steps that arrived while a reset was waited for

    # -- stepping --------------------------------------------------------------------------------

    def reset(  # type: ignore[override]
        self, env_id: Any = None, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Starts new episodes in all environments, or in ``env_id``; see `Pool.reset`.

        Raises:
            SequenceError: a step of one of these environments is in flight.
        """
        ids: Any = np.arange(self.env_num) if env_id is None else np.atleast_1d(env_id)
        if not self.is_async:
            return self._rows(self.pool.reset(ids, seed=seed, options=options))
        self._check_ready(ids)
        self.pool.async_reset(ids, seed=seed, options=options)
        found: dict[int, Any] = {}
        while len(found) < len(ids):
            result = self.pool.recv()
            i = int(result[-1]["env_id"][0])
            if i in self.waiting_id:
                self._early.append(result)
            else:
                found[i] = self._rows((result[0], result[-1]))
        return _joined([found[i] for i in ids.tolist()])

    def step(self, action: Any, id: Any = None) -> Rows:
        """Steps all environments, or those of ``id``; an asynchronous pool returns the ``wait_num`` results done first.

        Args:
            action: an action for each environment; None, in an asynchronous pool, to wait for all steps in flight.
            id: the environments to step; all by default.

        Returns:
            Arrays of observations, rewards, terminated, truncated and infos, with one row for each environment.

        Raises:
            SequenceError: a step of one of these environments is in flight, or no step is.
        """
        ids = np.arange(self.env_num) if id is None else np.atleast_1d(id)
        if not self.is_async:
            return self._rows(self.pool.step(self._actions(action), ids))
        if action is not None:
            self._check_ready(ids)
            self.pool.send(self._actions(action), ids)
            self.waiting_id += ids.tolist()
        if not self.waiting_id:
            raise SequenceError("nothing steps: give actions")
        count = len(self.waiting_id) if action is None else min(self.wait_num, len(self.waiting_id))
        arrived, self._early = self._early[:count], self._early[count:]
        while len(arrived) < count:
            arrived.append(self.pool.recv())
        for result in arrived:
            self.waiting_id.remove(int(result[-1]["env_id"][0]))
        self.ready_id = [i for i in range(self.env_num) if i not in self.waiting_id]
        return _joined([self._rows(result) for result in arrived])

    def seed(self, seed: Any = None) -> list[Any]:
        """Seeds all environments by resetting them, as Gymnasium does; returns their seeds."""
        seeds = [seed + i for i in range(self.env_num)] if isinstance(seed, int) else seed
        self.reset(seed=seeds)
        return [None] * self.env_num if seeds is None else list(seeds)

    def render(self, **kwargs: Any) -> list[Any]:
        """Returns an RGB frame uint8[height, width, 3] of each environment."""
        return list(self.pool.render(self.pool.all_env_ids))

    def close(self) -> None:
        self.pool.close()
        self.is_closed = True

    # -- access to environments ------------------------------------------------------------------

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:
        """Returns an attribute of each environment; those that are not Python objects have only those of `SHARED`."""
        ids = range(self.env_num) if id is None else np.atleast_1d(id).tolist()
        if key in SHARED:
            return [SHARED[key](self.pool)] * len(ids)
        return self.pool.get_attr(key, list(ids))

    def set_env_attr(self, key: str, value: Any, id: Any = None) -> None:
        """Sets an attribute of each environment to a value; raises `OptionError` if they are not Python objects."""
        ids = list(range(self.env_num)) if id is None else np.atleast_1d(id).tolist()
        self.pool.set_attr(key, [value] * len(ids), ids)

    # -- rows ------------------------------------------------------------------------------------

    def _check_ready(self, ids: np.ndarray) -> None:
        if busy := sorted(set(ids.tolist()).intersection(self.waiting_id)):
            raise SequenceError(f"environment {busy[0]} is stepping: wait for its result first")

    def _actions(self, action: Any) -> Any:
        """Returns actions for the pool from Tianshou's, which for a `Dict` space are an array of dicts."""
        if isinstance(self.pool.action_space, gym.spaces.Dict):
            return {key: np.stack([one[key] for one in action]) for key in self.pool.action_space.spaces}
        return np.asarray(action)

    def _rows(self, result: Any) -> Any:
        obs, *rest, info = result
        ids = info["env_id"].tolist()
        infos = np.empty(len(ids), object)
        infos[:] = [{**told, "env_id": i} for told, i in zip(by_row(info, len(ids)), ids, strict=True)]
        if isinstance(obs, dict):
            rows = np.empty(len(ids), object)
            rows[:] = [{key: column[row] for key, column in obs.items()} for row in range(len(ids))]
            obs = rows
        return obs, *rest, infos


SHARED = {
    "action_space": lambda pool: pool.action_space,
    "observation_space": lambda pool: pool.observation_space,
    "metadata": lambda pool: {"render_modes": ["rgb_array"], "render_fps": pool.spec.render_fps},
    "spec": lambda pool: gym.registry.get(pool.spec.task),
    "reward_range": lambda pool: (-np.inf, np.inf),
}
"""attribute that all environments of a pool share → a function pool → its value"""


def _joined(parts: list[Any]) -> Any:
    """Returns the rows of several results as one result."""
    return parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))
