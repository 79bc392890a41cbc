"""A pool whose results are JAX arrays over the memory that environments write.

On a CPU no data are copied: JAX receives the pool's arrays through DLPack, and the pool reuses a batch only after JAX
has released it, too. Actions that JAX computed are read in place. Exceptions are float64 arrays if JAX has this dtype
disabled, actions of another dtype than the space's (int32 for int64), and arrays on another device.

    >>> from headrace.adapters import jax as adapter
    >>> pool = adapter.make("CartPole-v1", num_envs=64, seed=0)
    >>> obs, info = pool.reset()  # a jax.Array float32[64, 4]
    >>> obs, reward, terminated, truncated, info = pool.step(policy(obs))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.make_pool import make_pool
from headrace.pool.pool import Pool, StepResult
from headrace.pool.registry import TaskLike
from headrace.pool.seeds import SeedLike
from headrace.pool.structure import is_array, leaves

try:
    import jax
except ImportError as error:
    raise ImportError(f"this adapter needs JAX ({error}): pip install 'headrace[libraries]'") from error


def make(task_id: TaskLike, num_envs: int = 1, **options: Any) -> JaxPool:
    """Returns a pool on the CPU with JAX arrays; arguments and errors are those of `headrace.make` and `JaxPool`."""
    pool = make_pool(task_id, num_envs, **options)
    try:
        return JaxPool(pool)
    except OptionError:
        pool.close()
        raise


class JaxPool:
    """A pool that returns and takes JAX arrays.

    Arrays in ``info`` stay NumPy arrays: programs read them on the host, and a conversion takes some microseconds.
    `shared` converts them for use in computations.

    Args:
        pool: the underlying pool; closed with this object.

    Raises:
        OptionError: the pool is on a GPU, or its observations are objects, which JAX does not support.
    """

    def __init__(self, pool: Pool):
        if pool.device != "cpu":
            raise OptionError(f"JAX shares the memory of pools on the CPU, not on {pool.device}")
        if not all(map(is_array, leaves(pool.observation_space).values())):
            raise OptionError(f"{pool.spec.task} observes objects, which JAX has no arrays of")
        self.pool = pool
        self.num_envs, self.batch_size, self.spec = pool.num_envs, pool.batch_size, pool.spec
        self.observation_space, self.action_space = pool.observation_space, pool.action_space
        self.async_reset, self.close = pool.async_reset, pool.close

    def reset(
        self, env_id: Any = None, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; see `Pool.reset`."""
        obs, info = self.pool.reset(on_host(env_id), seed=seed, options=options)
        return shared(obs), info

    def step(self, action: Any, env_id: Any = None) -> StepResult:
        """Advances all environments, or those of ``env_id``, by one agent step; see `Pool.step`."""
        return self._returned(self.pool.step(on_host(action), on_host(env_id)))

    def send(self, action: Any, env_id: Any = None) -> None:
        """Starts one step and returns immediately; see `Pool.send`."""
        self.pool.send(on_host(action), on_host(env_id))

    def recv(self, timeout: float | None = None) -> StepResult:
        """Returns the next results; see `Pool.recv`."""
        return self._returned(self.pool.recv(timeout))

    def _returned(self, result: StepResult) -> StepResult:
        *arrays, info = result
        if "final_obs" in info:
            info["final_obs"] = shared(info["final_obs"])
        obs, reward, terminated, truncated = (shared(array) for array in arrays)
        return obs, reward, terminated, truncated, info

    def __len__(self) -> int:
        return self.num_envs

    def __enter__(self) -> JaxPool:
        self.pool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shared(value: Any) -> Any:
    """Returns JAX arrays over the memory of NumPy arrays, in nested dicts and tuples; copies those that do not fit."""
    return jax.tree.map(jax.dlpack.from_dlpack, value)


def on_host(value: Any) -> Any:
    """Returns JAX arrays in nested dicts and tuples as NumPy arrays, once computed; on a CPU over the same memory."""
    if isinstance(value, jax.Array | dict | tuple):
        return jax.tree.map(np.asarray, value)
    return value
