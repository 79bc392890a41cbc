"""Wrappers of pools that change rewards or observations, a whole batch at a time.

A function of a batch's arrays takes a few array operations per step, for any number of environments, and does not run
in the processes or threads that step them. A wrapped pool has all methods of the pool and can be wrapped again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.batch import FINAL, INFO, OBS, observation_fields
from headrace.pool.spec import Field, TaskSpec
from headrace.pool.step import Step, copy, is_real, is_tensor, where, zeros
from headrace.pool.structure import assembled, at, leaf_name, leaves, mapped

if TYPE_CHECKING:
    from headrace.pool.base import BasePool

REWARD = "reward"


class PoolWrapper:
    """The base class of wrappers, which change a pool's results; all other attributes and methods are the pool's.

    Attributes:
        pool: the wrapped pool, which may itself be a wrapper.

    Raises:
        OptionError: it is no pool, but such as a view of one.
    """

    def __init__(self, pool: BasePool[Any] | PoolWrapper):
        if type(getattr(pool, "spec", None)) is not TaskSpec:  # a view's is derived from it, or another
            raise OptionError(
                f"{type(self).__name__} wraps a pool, from headrace.make or make_torch, not {pool!r:.200}"
            )
        self.pool: Any = pool

    def __getattr__(self, name: str) -> Any:
        if name == "pool":  # missing while an object is being unpickled
            raise AttributeError(name)
        return getattr(self.pool, name)

    @property
    def unwrapped(self) -> Any:
        return unwrapped(self.pool)

    # -- methods for subclasses ------------------------------------------------------------------

    def changed(self, result: tuple[Any, ...], own: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the wrapper's result ``(obs, reward, terminated, truncated, info)`` of a step.

        Args:
            result: the pool's result, whose info dict is new.
            own: name → array that the caller has bound (`make_batch`) and that the wrapper writes, see `takes`.
        """
        return result

    def begun(self, obs: Any, info: dict[str, Any], own: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns the wrapper's result ``(obs, info)`` of a reset; ``own`` as in `changed`."""
        return obs, info

    def takes(self, name: str) -> bool:
        """Returns whether the wrapper, not the pool, writes the batch's array of this name."""
        return False

    # -- the pool's calls ------------------------------------------------------------------------

    def reset(self, env_id: Any = None, *, out: Any = None, **more: Any) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; arguments and errors are those of the pool's `reset`."""
        if out is None:
            obs, info = self.pool.reset(env_id, **more)
            return self.begun(obs, info, {})
        batch = self._bound(out)
        obs, info = self.pool.reset(env_id, out=batch.inner, **more)
        return self.begun(obs, info, batch.own)

    def step(self, action: Any, env_id: Any = None, *, out: Any = None) -> tuple[Any, ...]:
        """Advances environments by one agent step; arguments and errors are those of the pool's `step`."""
        if out is None:
            return self.changed(self.pool.step(action, env_id), {})
        batch = self._bound(out)
        return self.changed(self.pool.step(action, env_id, out=batch.inner), batch.own)

    def recv(self, timeout: float | None = None, *, reset: bool = False, return_info: bool = True) -> Any:
        """Waits for results and returns them; arguments and errors are those of `Pool.recv`."""
        obs, reward, terminated, truncated, info = self.changed(self.pool.recv(timeout), {})
        if reset:
            return (obs, info) if return_info else obs
        return obs, reward, terminated, truncated, info

    def make_batch(self, arrays: Mapping[str, Any] | None = None, **more: Any) -> WrappedBatch:
        """Returns a batch over the caller's own arrays or tensors, for ``out=``; see `Pool.make_batch`."""
        given = {**(arrays or {}), **more}
        own = {name: array for name, array in given.items() if self.takes(name)}
        rest = {name: array for name, array in given.items() if name not in own}
        if own and not rest:  # the pool infers the number of rows from at least one array
            some = next(iter(own.values()))
            rest = {"truncated": zeros(some, (len(some),), "bool")}
        return WrappedBatch(self, self.pool.make_batch(rest), own)

    def bind(self, action: Any, out: WrappedBatch) -> Callable[[], tuple[Any, ...]]:
        """Returns a function that takes a step with the same tensors at each call; see `TorchPool.bind`."""
        batch = self._bound(out)
        step, own = self.pool.bind(action, batch.inner), batch.own
        return lambda: self.changed(step(), own)

    def _bound(self, out: Any) -> WrappedBatch:
        batch = out if isinstance(out, WrappedBatch) else self.make_batch(out)
        if batch.owner is not self:
            raise OptionError("out= belongs to another pool: make it with this pool's make_batch")
        return batch

    def __len__(self) -> int:
        return len(self.pool)

    def __enter__(self) -> Self:
        self.pool.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.__exit__(*error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.pool!r}>"


@dataclasses.dataclass(frozen=True)
class WrappedBatch:
    """Arrays bound to a wrapper: ``inner``, the batch of the wrapped pool, and ``own``, which the wrapper writes."""

    owner: PoolWrapper
    inner: Any
    own: dict[str, Any]


class TransformReward(PoolWrapper):
    """A pool whose rewards are a function of its steps.

    ``info["reward"]`` holds the pool's reward (unless the task declares an info field of this name), for reports of the
    original score; an environment's own key ``reward`` is refused. Rows that only begin an episode have reward 0.

    Args:
        pool: the pool, synchronous or asynchronous, on the host or a device.
        function: a function of a `Step` of k environments that returns rewards [k], or [k, agents].

    Raises:
        OptionError: the function's result has another shape or is not of real numbers, or an environment's own info
            has a key ``reward``; raised by the reset or step.

    Example:
        >>> pool = headrace.wrappers.TransformReward(pool, lambda step: step.reward - 0.1 * abs(step.obs[:, 0]))
    """

    def __init__(self, pool: BasePool[Any] | PoolWrapper, function: Callable[[Step], Any]):
        super().__init__(pool)
        if not callable(function):
            raise OptionError(f"TransformReward needs a function of a Step that returns rewards, not {function!r}")
        self._function = function
        self._over: Any = None  # with next-step autoreset: whether each environment's last result ended an episode
        spec: TaskSpec = pool.spec
        self._kept = not spec.declares(REWARD)
        if self._kept:
            field = Field(REWARD, np.dtype(np.float32), spec.reward_shape, per_agent=bool(spec.agents))
            spec = dataclasses.replace(spec, info=(*spec.info, field))
        self.spec = spec

    def takes(self, name: str) -> bool:
        return self._kept and name in (INFO + REWARD, FINAL + INFO + REWARD)

    def changed(self, result: tuple[Any, ...], own: Mapping[str, Any]) -> tuple[Any, ...]:
        _, reward, terminated, truncated, info = result
        new = self._function(Step(*result))
        if tuple(np.shape(new)) != tuple(reward.shape):
            raise OptionError(f"the function of rewards returned shape {np.shape(new)}, not {tuple(reward.shape)}")
        if not is_real(new):
            raise OptionError(f"the function of rewards returned {new!r:.200}, which are no real numbers")
        if self._kept:
            self._keep(reward, info, own)
        reward[...] = where(self._began(terminated | truncated, info), reward, new)
        return result

    def begun(self, obs: Any, info: dict[str, Any], own: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        if self._kept:
            self._check(info)
            rows, shape = len(info["env_id"]), self.spec.reward_shape
            info[REWARD] = zeros(info["env_id"], (rows, *shape), "float32")
        if self._over is not None:
            self._over[info["env_id"]] = False
        return obs, info

    def _began(self, done: Any, info: Mapping[str, Any]) -> Any:
        """Returns which rows only begin an episode, bool[k]."""
        began = (info["elapsed_step"] == 0) & ~done
        if self.autoreset != "next_step":
            return began
        if self._over is None:
            self._over = zeros(done, (self.num_envs,), "bool")
        ids = info["env_id"]
        began = began | self._over[ids]  # the next life of a game begins in the middle of it
        self._over[ids] = done
        return began

    def _check(self, info: Mapping[str, Any]) -> None:
        if REWARD in info or REWARD in info.get("final_info", ()):
            raise OptionError(
                f"info[{REWARD!r}] of {self.spec.task} is its environment's own, but TransformReward keeps the pool's "
                "reward there: rename the environment's, in a wrapper"
            )

    def _keep(self, reward: Any, info: dict[str, Any], own: Mapping[str, Any]) -> None:
        """Puts the pool's reward into info, and into the final info of episodes that have ended."""
        self._check(info)
        kept = own.get(INFO + REWARD)
        if kept is None:
            kept = copy(reward)
        else:
            kept[...] = reward
        info[REWARD] = kept
        final = own.get(FINAL + INFO + REWARD)
        if final is not None:
            final[...] = reward
        if "final_info" in info:
            info["final_info"][REWARD] = kept if final is None else final


class NormalizeReward(TransformReward):
    """A pool on the host whose rewards are divided by the running standard deviation of the discounted return.

    It is intended for learners of other libraries; Headrace's own have the setting ``normalise_rewards``.

    Args:
        pool: the pool.
        gamma: the discount factor.
        clip: the largest magnitude of a scaled reward; larger ones are clipped.

    Attributes:
        variance: the variance of all discounted returns so far; 1 before the first step.

    Raises:
        OptionError: the pool's arrays are torch tensors, or a number is out of range.

    Source: Engstrom et al. 2020 (arXiv:2005.12729).
    """

    def __init__(self, pool: BasePool[Any] | PoolWrapper, gamma: float = 0.99, clip: float = 10.0):
        if not hasattr(unwrapped(pool), "send"):  # a pool of tensors
            raise OptionError("NormalizeReward is for pools of arrays; training has the setting normalise_rewards")
        for name, value, most in (("gamma", gamma, 1.0), ("clip", clip, np.inf)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise OptionError(f"NormalizeReward's {name} must be a number in [0, {most}], not {value!r}")
        super().__init__(pool, self._scaled)
        self._gamma, self._clip = gamma, clip
        self._returns = np.zeros((pool.num_envs, *pool.spec.reward_shape))
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    @property
    def variance(self) -> float:
        return self._squares / self._count if self._count else 1.0

    def _scaled(self, step: Step) -> Any:
        ids = step.info["env_id"]
        returns = self._returns[ids] * self._gamma + step.reward
        done = (step.terminated | step.truncated).reshape(-1, *(1,) * (returns.ndim - 1))
        self._returns[ids] = np.where(done, 0.0, returns)
        count, mean = returns.size, float(returns.mean())
        delta, total = mean - self._mean, self._count + returns.size
        self._squares += float(((returns - mean) ** 2).sum()) + delta**2 * self._count * count / total
        self._mean += delta * count / total
        self._count = total
        return np.clip(step.reward / np.sqrt(self.variance + 1e-8), -self._clip, self._clip)


class TransformObservation(PoolWrapper):
    """A pool whose observations are a function of another pool's.

    Args:
        pool: the pool, synchronous or asynchronous, on the host or a device.
        function: a function of observations [k, …] for any k, nested as the pool's, that returns k observations of
            ``space``.
        space: the space of one environment's new observation.

    Raises:
        OptionError: the shape, dtype or nesting of the function's result does not match the space; raised by the
            reset or step.

    Example:
        >>> space = gymnasium.spaces.Box(-1, 1, (2,))
        >>> pool = headrace.wrappers.TransformObservation(pool, lambda obs: obs[:, :2], space)
    """

    def __init__(self, pool: BasePool[Any] | PoolWrapper, function: Callable[[Any], Any], space: gym.Space):
        super().__init__(pool)
        if not callable(function) or not isinstance(space, gym.Space):
            raise OptionError("TransformObservation needs a function of observations, and the space of what it returns")
        self._function = function
        told = dataclasses.replace(pool.spec.signals, observation=())  # what was said of other observations
        self.spec = dataclasses.replace(pool.spec, observation=space, signals=told, mirror=None)
        self.observation_space = self.single_observation_space = space
        self._names = {each.name for each in observation_fields(space)}
        self._names |= {FINAL + name for name in self._names}

    def takes(self, name: str) -> bool:
        return name in self._names

    def changed(self, result: tuple[Any, ...], own: Mapping[str, Any]) -> tuple[Any, ...]:
        obs, reward, terminated, truncated, info = result
        if "final_obs" in info:
            info["final_obs"] = self._final(info["final_obs"], terminated | truncated, own)
        return self._new(obs, own, ""), reward, terminated, truncated, info

    def begun(self, obs: Any, info: dict[str, Any], own: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        return self._new(obs, own, ""), info

    def _final(self, final: Any, done: Any, own: Mapping[str, Any]) -> Any:
        """Returns the new last observations of episodes that ended; other rows of ``final`` are undefined."""
        if is_tensor(done):
            return self._new(final, own, FINAL)
        part = self._checked(self._function(mapped(lambda array: array[done], final)), int(done.sum()))
        whole = mapped(lambda array: np.zeros((len(done), *array.shape[1:]), array.dtype), part)
        mapped(lambda into, rows: into.__setitem__(done, rows), whole, part)
        return self._into(whole, own, FINAL)

    def _new(self, obs: Any, own: Mapping[str, Any], prefix: str) -> Any:
        first = obs
        while isinstance(first, dict | tuple):
            first = next(iter(first.values() if isinstance(first, dict) else first))
        return self._into(self._checked(self._function(obs), len(first)), own, prefix)

    def _into(self, new: Any, own: Mapping[str, Any], prefix: str) -> Any:
        """Returns new observations, copied into the arrays that the caller has bound."""
        arrays = {}
        for path in leaves(self.observation_space):
            name = leaf_name(prefix + OBS, path)
            arrays[name] = at(new, path)
            if name in own:
                own[name][...] = arrays[name]
                arrays[name] = own[name]
        return assembled(prefix + OBS, self.observation_space, arrays)

    def _checked(self, new: Any, rows: int) -> Any:
        for path, leaf in leaves(self.observation_space).items():
            try:
                found = at(new, path)
                shape, dtype = tuple(found.shape), str(found.dtype).removeprefix("torch.")
            except (KeyError, IndexError, TypeError, AttributeError):
                raise OptionError(f"the function of observations must return arrays nested as {leaf}") from None
            if shape != (wanted := (rows, *(leaf.shape or ()))) or dtype != str(leaf.dtype):
                raise OptionError(
                    f"the function of observations returned {dtype}{list(shape)}, not {leaf.dtype}{list(wanted)}"
                )
        return new


def unwrapped(pool: Any) -> Any:
    """Returns the pool under all wrappers; ``pool`` itself if there are none."""
    while isinstance(pool, PoolWrapper):
        pool = pool.pool
    return pool
