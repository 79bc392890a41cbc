"""Pools as stable-baselines3's `VecEnv`.

Environments write directly into the arrays that stable-baselines3 receives. This module adds its conventions for the
end of an episode (``terminal_observation``, ``TimeLimit.truncated``, `reset_infos`), and access to environments'
attributes.

    >>> from stable_baselines3 import PPO
    >>> from headrace.adapters import sb3
    >>> env = sb3.make_vec_env("CartPole-v1", n_envs=8, seed=0)
    >>> PPO("MlpPolicy", env).learn(100_000)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import EnvironmentFailure, OptionError
from headrace.pool.actions import whole_numbers
from headrace.pool.infos import by_row, info_of_row
from headrace.pool.make_pool import make_pool
from headrace.pool.pool import Pool
from headrace.pool.registry import TaskLike, own_options
from headrace.pool.structure import row_of
from headrace.pool.views.envspec import EnvSpec

try:
    from stable_baselines3.common.vec_env import VecEnv, VecMonitor
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn
except ImportError as error:
    raise ImportError(f"this adapter needs stable-baselines3 ({error}): pip install 'headrace[libraries]'") from error

ELSEWHERE = {
    "batch_size": "stable-baselines3 waits for all environments",
    "autoreset": "stable-baselines3's environments reset within a step",
    "num_envs": "say n_envs",
    "wrapper_class": "give a function that makes the environment and wraps it in place of its name",
    "vec_env_cls": "the pool takes that place",
    "vec_env_kwargs": "the pool's own options go beside n_envs",
    "start_index": "environment i starts at seed + i",
}
"""option of stable-baselines3's `make_vec_env` or of pools that is not accepted here → its replacement, or why"""


CUT = "TimeLimit.truncated"  # stable-baselines3's key of infos; an environment's own says the same


def make_vec_env(
    env_id: TaskLike,
    n_envs: int = 1,
    seed: int | None = None,
    monitor_dir: str | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> VecMonitor:
    """Returns a pool as a `VecEnv` that reports episodes; replaces `stable_baselines3.common.env_util.make_vec_env`.

    Args:
        env_id: the task, as in `headrace.make`: a name, or a class or function that makes a `gymnasium.Env`.
        n_envs: number of environments in the pool.
        seed: environment i is seeded with ``seed + i``; None draws fresh entropy.
        monitor_dir: the folder for ``0.monitor.csv``, with a line for each episode of any environment; None for no
            such file.
        monitor_kwargs: ``info_keywords``, as in `VecMonitor`.
        env_kwargs, options: the pool's options and the task's own, as in `headrace.make`.

    Raises:
        UnknownTaskError, OptionError: as in `headrace.make`; or a `VecEnv` does not support an option.
    """
    options = {**(env_kwargs or {}), **options}
    for name in ELSEWHERE.keys() & options.keys():
        raise OptionError(f"{name} is not for this make_vec_env: {ELSEWHERE[name]}")
    render_mode = options.get("render_mode", "rgb_array")
    if "render_mode" in options and "render_mode" not in own_options(env_id, options.get("executor")):
        del options["render_mode"]
    pool = make_pool(env_id, num_envs=n_envs, seed=seed, autoreset="same_step", **options)
    try:
        env = PoolVecEnv(pool, render_mode)
        file = None if monitor_dir is None else str(Path(monitor_dir, "0"))
        return VecMonitor(env, file, **(monitor_kwargs or {}))
    except BaseException:
        pool.close()
        raise


class PoolVecEnv(VecEnv):
    """A synchronous pool with autoreset mode ``"same_step"`` as a `VecEnv`.

    ``infos[i]`` is a new dict with the task's info fields of environment i, ``elapsed_step`` and
    ``TimeLimit.truncated``. At the end of an episode it is the info of its last step, with its last observation in
    ``terminal_observation``; the info of the next episode's first observation is ``reset_infos[i]``.

    Args:
        pool: the underlying pool; closed with this object.
        render_mode: ``"rgb_array"`` or None.

    Raises:
        OptionError: the pool is asynchronous, has another autoreset mode, is on a GPU, or has several agents.
    """

    def __init__(self, pool: Pool, render_mode: str | None = "rgb_array"):
        if pool.is_async or pool.autoreset != "same_step" or pool.device != "cpu":
            raise OptionError(
                f"stable-baselines3 needs a synchronous pool on the CPU, autoreset='same_step': not {pool}"
            )
        if pool.spec.reward_shape:
            raise OptionError(f"{pool.spec.task} is for many agents; stable-baselines3 is for one")
        if render_mode not in (None, "rgb_array"):
            raise OptionError(f"render_mode must be None or 'rgb_array', not {render_mode!r}: frames are what it draws")
        self.pool = pool
        self.render_mode = render_mode
        self.spec = EnvSpec(pool.spec, pool.config)
        self._actions: Any = None
        super().__init__(pool.num_envs, pool.observation_space, pool.action_space)
        self.metadata: dict[str, Any] = {**self.metadata, "render_fps": pool.spec.render_fps}

    # -- stepping --------------------------------------------------------------------------------

    def reset(self) -> VecEnvObs:
        """Starts new episodes in all environments, with the seeds of `seed` if it was called since the last reset.

        Raises:
            OptionError: options that differ between environments were set.
        """
        if any(options != self._options[0] for options in self._options):
            raise OptionError(f"a pool's environments are reset with the same options, not {self._options}")
        seeds = None if self._seeds[0] is None else self._seeds
        obs, info = self.pool.reset(seed=seeds, options=self._options[0] or None)  # type: ignore[arg-type]
        self.reset_infos = by_row(info, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Stores the actions [num_envs, …] for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Steps all environments; returns ``(obs, reward, done, infos)`` as stable-baselines3 defines them."""
        actions = whole_numbers(self._actions, self.action_space)
        obs, reward, terminated, truncated, info = self.pool.step(actions)
        infos = by_row(info, self.num_envs)
        done = terminated | truncated
        for i in np.flatnonzero(done).tolist():
            infos[i], self.reset_infos[i] = info_of_row(info["final_info"], i), infos[i]
            infos[i]["terminal_observation"] = row_of(info["final_obs"], i)
        for told, cut in zip(infos, (truncated & ~terminated).tolist(), strict=True):
            told[CUT] = cut
        return obs, reward, done, infos

    def close(self) -> None:
        self.pool.close()

    # -- rendering -------------------------------------------------------------------------------

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Returns an RGB frame uint8[height, width, 3] of each environment; None without a ``render_mode``."""
        if self.render_mode is None:
            return [None] * self.num_envs
        return list(self.pool.render(self.pool.all_env_ids))

    # -- access to environments ------------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of each environment; those that are not Python objects have only the attributes `OWN`.

        Raises:
            AttributeError: there is no attribute of this name.
        """
        ids = self._ids(indices)
        if attr_name in OWN:
            return [getattr(self, attr_name)] * len(ids)
        try:
            return self.pool.call(_attribute(attr_name), env_ids=ids)
        except (OptionError, EnvironmentFailure) as error:
            if isinstance(error, OptionError) or isinstance(error.__cause__, AttributeError):
                raise AttributeError(f"{self.spec.id} has no attribute {attr_name!r}") from error
            raise

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of each environment; raises `OptionError` if they are not Python objects."""
        ids = self._ids(indices)
        self.pool.set_attr(attr_name, [value] * len(ids), env_ids=ids)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Returns the result of a method of each environment; raises `OptionError` if they are not Python objects."""
        return self.pool.call(method_name, *method_args, env_ids=self._ids(indices), **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Returns whether each environment has a wrapper of this class; only Python objects can have one."""
        ids = self._ids(indices)
        try:
            found = self.pool.call(_wrappers(), env_ids=ids)
        except OptionError:
            return [False] * len(ids)
        return [(wrapper_class.__module__, wrapper_class.__name__) in names for names in found]

    def _ids(self, indices: VecEnvIndices) -> list[int]:
        return [int(i) for i in self._get_indices(indices)]


OWN = ("action_space", "metadata", "observation_space", "render_mode", "spec")
"""attributes that all environments of a pool share"""


# functions are nested to be pickled by value, so that workers need not import stable-baselines3
def _attribute(name: str) -> Callable[[Any], Any]:
    def found(env: Any) -> Any:
        return env.get_wrapper_attr(name) if hasattr(env, "get_wrapper_attr") else getattr(env, name)

    return found


def _wrappers() -> Callable[[Any], Any]:
    def found(env: Any) -> set[tuple[str, str]]:
        names = set()
        while isinstance(env, gym.Wrapper):
            names |= {(kind.__module__, kind.__name__) for kind in type(env).__mro__}
            env = env.env
        return names

    return found
