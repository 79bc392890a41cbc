"""EnvPool's interface to a pool, so that programs written for EnvPool run with only their import changed.

Programs written for EnvPool use more names than a pool has, and rely on behaviour that it lacks: single-environment
spaces on an object that is also a Gymnasium environment, whole numbers as floats, a first step without a reset. This
module supports them; intended differences are listed in ``docs/coming-from-envpool.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from headrace.pool.actions import action_check, check_env_ids, unpacked, whole_numbers
from headrace.pool.infos import joined, masked
from headrace.pool.pool import Pool, StepResult
from headrace.pool.seeds import SeedLike
from headrace.pool.structure import mapped
from headrace.pool.views.envspec import EnvSpec, described
from headrace.pool.views.pictures import Pictures

MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP, "disabled": AutoresetMode.DISABLED}


class EnvPool:
    """The base class of EnvPool's objects for all interfaces.

    Args:
        pool: the underlying pool; closed with this object.
        spec: the task and the options that the pool was made with; the pool's own if not given.
        pictures: the renderer of environments; by default one with the task's size and camera.
        render_mode: ``"rgb_array"`` or None; only reported, since `render` returns frames in both cases.

    Attributes:
        spec, num_envs, is_async, all_env_ids: as in EnvPool.
        pool: the underlying pool, with further methods and attributes.
    """

    num_envs: int  # a plain attribute: programs assign it
    is_vector_env = True

    def __init__(
        self, pool: Pool, spec: EnvSpec | None = None, pictures: Pictures | None = None, render_mode: str | None = None
    ):
        self.pool = pool
        self._spec = spec or EnvSpec(pool.spec, pool.config)
        self.spec: Any = self._spec  # `gymnasium.make_vec` replaces it by its own
        self.render_mode = render_mode
        self.num_envs, self.is_async, self.all_env_ids = pool.num_envs, pool.is_async, pool.all_env_ids
        self._pictures = pictures or Pictures(pool)
        self._check_action = action_check(pool.action_space)
        # like EnvPool, treat an environment that was never reset as one whose episode is over
        self._resets_first = pool.autoreset == "next_step" and not pool.is_async

    @property
    def config(self) -> dict[str, Any]:
        """All options with their values."""
        return self._spec.config._asdict()

    def observation_spec(self) -> Any:
        """Returns dm_env's specs of one environment's observation and info, in a named tuple."""
        return self._spec.observation_spec()

    def action_spec(self) -> Any:
        """Returns dm_env's spec of one environment's action; a dict of specs for a `Dict` space."""
        return self._spec.action_spec()

    def __len__(self) -> int:
        return self.pool.num_envs

    def __repr__(self) -> str:
        return described(type(self).__name__, self._spec)

    __str__ = __repr__

    def seed(self, seed: Any = None) -> None:
        """Warns and has no other effect, as in EnvPool: environments are seeded when they are made or reset."""
        warnings.warn("seed() does nothing: use make(…, seed=…) or reset(seed=…)", stacklevel=2)

    def send(self, action: Any, env_id: Any = None) -> None:
        """Starts one step in all environments, or in ``env_id``, and returns immediately; see `Pool.send`."""
        self.pool.send(self._numbers(action), env_id)

    def async_reset(
        self, env_id: Any = None, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Starts new episodes and returns immediately; `recv` returns the observations. See `Pool.async_reset`."""
        self.pool.async_reset(env_id, seed=seed, options=options)

    def render(self, env_ids: Any = None, camera_id: int | None = None) -> Any:
        """Returns RGB frames uint8[k, height, width, 3] of environments, by default of ``render_env_id``."""
        return self._pictures.draw(env_ids, camera_id)

    def save_state(self, env_ids: Any = None) -> list[bytes]:
        """Returns the complete state of the environments ``env_ids``; see `Pool.save_state`."""
        return self.pool.save_state(env_ids)

    def load_state(self, env_ids: Any, blobs: list[bytes]) -> None:
        """Loads saved states into the environments ``env_ids``; see `Pool.load_state`."""
        self.pool.load_state(env_ids, blobs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns an attribute of each environment, or its result if it is callable; see `Pool.call`."""
        return tuple(self.pool.call(name, *args, **kwargs))

    def get_attr(self, name: str, indices: Any = None) -> tuple[Any, ...]:
        """Returns an attribute of the environments ``indices`` (all by default); see `Pool.get_attr`."""
        if name == "render_mode":
            count = self.pool.num_envs if indices is None else np.size(indices)
            return (self.render_mode,) * count
        return tuple(self.pool.get_attr(name, indices))

    def set_attr(self, name: str, values: Any, indices: Any = None) -> None:
        """Sets an attribute of the environments ``indices`` (all by default); see `Pool.set_attr`."""
        self.pool.set_attr(name, values, indices)

    def xla(self) -> tuple[Any, Any, Any, Any]:
        """Returns (handle, recv, send, step) for use under `jax.jit`; see `headrace.pool.views.xla`."""
        from headrace.pool.views.xla import functions

        return functions(self)

    def close(self, **kwargs: Any) -> None:
        """Frees threads, processes and memory immediately."""
        self._pictures.close()
        self.pool.close()
        self.closed = True

    def __reduce__(self) -> Any:
        return type(self), (self.pool, self._spec, self._pictures, self.render_mode)

    def _presented(self, result: StepResult) -> Any:
        """Returns a pool's result in the form of this interface."""
        return result

    def _numbers(self, action: Any) -> Any:
        """Returns discrete actions given as whole floats as integers; EnvPool converts other floats, too."""
        return whole_numbers(action, self.pool.action_space)

    def _step(self, action: Any, env_id: Any) -> StepResult:
        if self._resets_first:
            started = self.pool._status.started
            self._resets_first = not started.all()
            if self._resets_first:
                action, env_id = unpacked(action, env_id, self.pool.action_space)
                ids = self.all_env_ids if env_id is None else check_env_ids(env_id, len(self))
                if not started[ids].all():
                    return self._first_step(self._numbers(action), ids, ~started[ids])
        return self.pool.step(self._numbers(action), env_id)

    def _first_step(self, action: Any, ids: np.ndarray, new: np.ndarray) -> StepResult:
        """Resets environments that have never been reset, and steps the others."""
        action = self._check_action(action, len(ids))
        obs, info = self.pool.reset(ids[new])
        never = np.zeros(len(obs if not isinstance(obs, dict) else info["env_id"]), np.bool_)
        first = (obs, np.zeros((len(never), *self._spec.reward_shape), np.float32), never, never.copy())
        if new.all():
            return (*first, info)
        rest = {name: rows[~new] for name, rows in action.items()} if isinstance(action, dict) else action[~new]
        *second, last = self.pool.step(rest, ids[~new])
        return (*_joined(first, tuple(second), new), joined(info, last, new) | _joined(_common(info), last, new))


class GymPool(EnvPool, gym.vector.VectorEnv, gym.Env):  # type: ignore[misc]
    """A pool as EnvPool's ``env_type="gymnasium"``: a Gymnasium environment with the spaces of one environment.

    It is both a `gymnasium.Env` and a `gymnasium.vector.VectorEnv`, so wrappers of both kinds accept it. An object with
    a vector environment's batched spaces is made with ``env_type="vec"``.
    """

    # of type Any, as in `BasePool`
    observation_space: Any
    action_space: Any
    single_observation_space: Any
    single_action_space: Any

    def __init__(self, pool: Pool, *rest: Any):
        super().__init__(pool, *rest)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": pool.spec.render_fps,
            "autoreset_mode": MODES[pool.autoreset],
        }
        self.observation_space = self.single_observation_space = pool.observation_space
        self.action_space = self.single_action_space = pool.action_space

    def reset(  # type: ignore[override]
        self, env_id: Any = None, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all environments, or in ``env_id``, and returns (obs, info); see `Pool.reset`."""
        return self.pool.reset(env_id, seed=seed, options=options)

    def step(self, action: Any, env_id: Any = None) -> StepResult:  # type: ignore[override]
        """Advances all environments, or those of ``env_id``, by one agent step; see `Pool.step`."""
        return self._step(action, env_id)

    def recv(self, reset: bool = False, return_info: bool = True, *, timeout: float | None = None) -> Any:
        """Returns the next results; see `Pool.recv`."""
        return self.pool.recv(timeout, reset=reset, return_info=return_info)


def _common(info: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries of info that every row has."""
    some = masked(info)
    return {key: value for key, value in info.items() if key not in some}


def _joined(first: Any, second: Any, where: np.ndarray) -> Any:
    """Returns the results of two calls as one: rows ``where``, bool[k], are the first's, the others the second's."""

    def whole(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        rows = np.empty((len(where), *one.shape[1:]), one.dtype)
        rows[where], rows[~where] = one, other
        return rows

    return mapped(whole, first, second)
