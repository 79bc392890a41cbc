"""A pool with Gymnasium's interfaces: `VectorEnv` for several environments, `Env` for one.

Steps are passed to the pool unchanged; this module adds Gymnasium's conventions: batched spaces, the autoreset mode in
the instance's metadata, ``reset_mask``, and final observations as an object array with None where no episode ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space

from headrace.errors import OptionError, SequenceError
from headrace.pool.batch import Batch
from headrace.pool.infos import masked
from headrace.pool.make_pool import make_pool
from headrace.pool.pool import Pool, StepResult
from headrace.pool.seeds import SeedLike
from headrace.pool.structure import is_array, mapped, one_row, renewed, row_of
from headrace.pool.views.envpool import MODES, EnvPool


class GymnasiumPool(EnvPool, gym.vector.VectorEnv):
    """A pool as a `gymnasium.vector.VectorEnv`.

    Observation and action space are batched over ``batch_size`` rows. `send` and `recv` are the pool's; `step` of an
    asynchronous pool returns the rows that finish first.

    Args:
        pool, rest: as in `EnvPool`; with ``render_mode="rgb_array"``, `render` returns one frame per environment.
    """

    # of type Any, as in `BasePool`
    observation_space: Any
    action_space: Any
    single_observation_space: Any
    single_action_space: Any

    def __init__(self, pool: Pool, *rest: Any):
        super().__init__(pool, *rest)
        self.metadata = metadata(pool) | {"autoreset_mode": MODES[pool.autoreset]}
        self.single_observation_space = pool.observation_space
        self.single_action_space = pool.action_space
        self.observation_space = batch_space(pool.observation_space, pool.batch_size)
        self.action_space = batch_space(pool.action_space, pool.batch_size)
        self.send, self.make_batch = pool.send, pool.make_batch
        self._seen: list[tuple[Any, np.ndarray]] = []  # (observations, env_ids): the newest of each environment
        self._unseen = np.zeros(pool.num_envs, np.bool_)  # whether a state was loaded after the newest observation

    def reset(
        self, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None, env_id: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; with ``options={"reset_mask": bool[num_envs]}`` only where the mask is True.

        With a mask every environment has a row: environments that are not reset return their last observation (zeros
        before the first), and zeros in ``info``, where the mask ``_<key>`` marks rows that have a value, as usual in
        Gymnasium. See `Pool.reset` for the other arguments and errors.

        Raises:
            SequenceError: the mask leaves out an environment whose state was loaded and that was not stepped since: its
                last observation is unknown.
        """
        mask = options.get("reset_mask") if options else None
        if mask is not None and self._unseen.any():
            self._check_seen(np.asarray(mask))
        obs, info = self.pool.reset(env_id, seed=seed, options=options)
        if self.is_async:
            return obs, info
        ids = info["env_id"]
        self._remember(obs, ids)
        if mask is not None:
            there = np.isin(self.all_env_ids, ids)
            known = masked(info)
            info = self._whole((info, ids)) | {f"_{key}": there for key in info if key not in known}
            info["env_id"] = info["players"]["env_id"] = self.all_env_ids
            info["_env_id"] = info["_players"] = np.ones(self.num_envs, np.bool_)
            return self._whole(*self._seen), info
        return obs, info

    def step(self, actions: Any, env_id: Any = None, *, out: Batch | None = None) -> StepResult:
        """Advances all environments, or those of ``env_id``, by one agent step; see `Pool.step`."""
        return self._returned(self.pool.step(actions, env_id, out=out))

    def recv(self, timeout: float | None = None, *, reset: bool = False, return_info: bool = True) -> Any:
        """Returns the next results; see `Pool.recv`."""
        obs, *rest, info = self._returned(self.pool.recv(timeout))
        if reset:
            return (obs, info) if return_info else obs
        return (obs, *rest, info)

    def load_state(self, env_ids: Any, blobs: list[bytes]) -> None:
        """Loads saved states into the environments ``env_ids`` (None: all); see `Pool.load_state`."""
        super().load_state(env_ids, blobs)
        self._unseen[slice(None) if env_ids is None else np.asarray(env_ids)] = True

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """Returns an RGB frame uint8[height, width, 3] of each environment; None without a ``render_mode``."""
        return tuple(super().render(self.all_env_ids)) if self.render_mode == "rgb_array" else None

    def __reduce__(self) -> Any:
        kind, arguments = super().__reduce__()
        return _rebuilt, (kind, arguments, self._seen, self._unseen)

    def _returned(self, result: StepResult) -> StepResult:
        obs, reward, terminated, truncated, info = result
        if not self.is_async:
            self._remember(obs, info["env_id"])
        if "final_obs" in info:
            done = info["_final_obs"]
            final = np.full(len(done), None, object)
            for row in np.flatnonzero(done):
                final[row] = row_of(info["final_obs"], row)
            info["final_obs"] = final
            known = masked(info["final_info"])
            info["final_info"] |= {f"_{key}": done for key in info["final_info"] if key not in known}
        return obs, reward, terminated, truncated, info

    def _remember(self, obs: Any, ids: np.ndarray) -> None:
        """Stores each environment's newest observation for `reset`; without a copy if ``obs`` has all environments."""
        if self._unseen.any():
            self._unseen[ids] = False
        if len(ids) < self.num_envs:
            obs, ids = self._whole(*self._seen, (obs, ids)), self.all_env_ids
        else:
            obs = renewed(obs)  # the caller may change its dicts
        self._seen = [(obs, ids)]

    def _check_seen(self, mask: np.ndarray) -> None:
        if mask.shape != self._unseen.shape or mask.dtype != np.bool_:
            return  # the pool raises for such a mask
        unknown = np.flatnonzero(self._unseen & ~mask)
        if unknown.size:
            raise SequenceError(
                f"reset_mask leaves out environment {unknown[0]}, whose state was loaded: what it last observed is not "
                "known before its next step, so step it first, or reset it too"
            )

    def _whole(self, *parts: tuple[Any, np.ndarray]) -> Any:
        """Returns a row for every environment, from parts (rows, env_ids); later parts replace earlier ones.

        Environments in none of them get zeros.
        """

        def whole(*arrays: np.ndarray) -> np.ndarray:
            nothing = None if arrays[0].dtype.hasobject else 0
            result = np.full((self.num_envs, *arrays[0].shape[1:]), nothing, arrays[0].dtype)
            for array, (_, ids) in zip(arrays, parts, strict=True):
                result[ids] = array
            return result

        return mapped(whole, *(rows for rows, _ in parts))


def _rebuilt(kind: type[GymnasiumPool], arguments: Any, seen: Any, unseen: np.ndarray) -> GymnasiumPool:
    view = kind(*arguments)
    view._seen, view._unseen = seen, unseen
    return view


class GymnasiumEnv(gym.Env):
    """One environment of a task as a `gymnasium.Env`; `gymnasium.make` makes it.

    Args:
        task: the task's name.
        render_mode: None or ``"rgb_array"``.
        options: as in `headrace.make`, without ``autoreset`` and ``num_envs``.

    Raises:
        UnknownTaskError, OptionError: as in `headrace.make`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(self, task: str, render_mode: str | None = None, **options: Any):
        if options.get("num_envs", 1) != 1:
            raise OptionError("gymnasium.make makes one environment: use gymnasium.make_vec for more")
        if "autoreset" in options:
            raise OptionError("gymnasium.make makes an environment that its user resets: autoreset is for make_vec")
        self.pool = make_pool(task, autoreset="disabled", **options)
        self.metadata = metadata(self.pool)
        self.render_mode = render_mode
        self.observation_space = self.pool.observation_space
        self.action_space = self.pool.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; returns ``(obs, info)`` of one environment, without a batch dimension.

        Raises:
            OptionError: the task's reset takes no such option.
        """
        super().reset(seed=seed)
        obs, info = self.pool.reset(seed=seed, options=options)
        return mapped(_first, obs, self.observation_space), row_of(info, 0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Advances by one agent step; returns ``(obs, reward, terminated, truncated, info)`` without a batch dimension.

        The reward is a float, or for a multi-agent task float32[agents].
        """
        obs, reward, terminated, truncated, info = self.pool.step(one_row(action))
        earned = float(reward[0]) if reward.ndim == 1 else reward[0]
        seen = mapped(_first, obs, self.observation_space)
        return seen, earned, bool(terminated[0]), bool(truncated[0]), row_of(info, 0)

    def render(self) -> Any:
        """Returns an RGB frame uint8[height, width, 3] with render_mode ``"rgb_array"``, else None."""
        return self.pool.render()[0] if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.pool.close()


def _first(rows: Any, space: gym.Space) -> Any:
    """Returns the first row of a leaf, as Gymnasium's spaces have it: an array, or an integer for a `Discrete`."""
    if isinstance(space, gym.spaces.Discrete):
        return int(rows[0])
    return np.asarray(rows[0]) if is_array(space) else rows[0]


def metadata(pool: Pool) -> dict[str, Any]:
    """Returns Gymnasium's ``metadata`` of a pool: its render modes and frame rate."""
    return {**GymnasiumEnv.metadata, "render_fps": pool.spec.render_fps}


def register_with_gymnasium(families: Mapping[str, Iterable[str]]) -> None:
    """Registers all families' tasks with Gymnasium, for `gymnasium.make` and `make_vec`; see `gymnasium_ids`."""
    for task, name in gymnasium_ids(families).items():
        if name not in gym.registry:
            gym.register(
                id=name,
                entry_point="headrace.pool.views.gymnasium:GymnasiumEnv",
                vector_entry_point="headrace.pool.views.make:make_vector",
                kwargs={"task": task},
                reward_threshold=twin.reward_threshold if (twin := gym.registry.get(task)) else None,
            )


def gymnasium_ids(families: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Returns Gymnasium's id of each task: ``headrace/<task>``.

    Gymnasium treats tasks whose names differ only in the version as versions of one task, and warns about older ones.
    If several families have different games of the same name, all families but the one with the lowest version have a
    separate namespace: ``headrace/Blackjack-v1`` is the card game, ``headrace-atari/Blackjack-v5`` the Atari game.
    """
    versions: dict[str, list[tuple[int, str]]] = {}
    named = [(task, family, *task.rsplit("-v", 1)) for family, tasks in families.items() for task in tasks]
    for _, family, name, version in named:
        versions.setdefault(name, []).append((int(version), family))
    first = {name: min(found)[1] for name, found in versions.items()}
    return {task: f"headrace{'' if family == first[name] else f'-{family}'}/{task}" for task, family, name, _ in named}
