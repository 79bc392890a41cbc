"""Environments of which one object steps all of a pool at once, in NumPy, JAX or PyTorch.

A step of such a pool is a few calls of the user's class for all environments together, in the caller's process.
Autoreset, truncation, seeds, partial and asynchronous steps and saved states are the executor's. The latter three work
on the arrays in which the class says that it keeps all of its state.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeGuard

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError, RenderError, SimulatorError, StateError, UnsupportedError
from headrace.pool.batch import FINAL, INFO, OBS, Batch, BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.executors.processes.task import arguments_of
from headrace.pool.frames import rgb_frames
from headrace.pool.seeds import mixed
from headrace.pool.spec import Field, PoolSettings, TaskSpec
from headrace.pool.structure import at, leaf_name, leaves, mapped
from headrace.pool.task import Task

LIMIT = "max_episode_steps"


class BatchedEnv:
    """The base of environments that one object steps all at once.

    A subclass sets the spaces, and defines `reset`, `step` and `observe`. Arrays have the environments along their
    first axis, and may be NumPy's, JAX's or PyTorch's.

    Args:
        num_envs: number of environments, N.

    Attributes:
        observation_space, action_space: spaces of one environment.
        max_episode_steps: number of steps after which an episode is truncated; 0 for no limit.
        fields: the arrays that `info` returns, with the dtype and shape of one environment's row.
        render_fps: steps per second at which frames show real time.
        state: name → array [N, …] of numbers, all that the environments keep from step to step. Saved states, partial
            steps and asynchronous pools need it; a class without it can only step all environments together.
    """

    observation_space: gym.Space
    action_space: gym.Space
    max_episode_steps: int = 0
    fields: tuple[Field, ...] = ()
    render_fps: float = 30.0

    def __init__(self, num_envs: int):
        self.num_envs = num_envs
        self.state: dict[str, Any] = {}

    def reset(self, mask: np.ndarray, seeds: np.ndarray) -> None:
        """Begins new episodes.

        Args:
            mask: the environments that begin one, bool[N]; the others must not change.
            seeds: uint64[N], a new number for each environment, from which alone its episode's random numbers should
                follow. Those of the other environments have no meaning.
        """
        raise NotImplementedError

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Advances all environments by one step.

        Environments whose episode has ended are stepped, too, with any action; then `reset` begins their next one.

        Args:
            actions: an array [N, …] of the action space's dtype, or for a `Dict` space a dict of them.

        Returns:
            Rewards [N], and whether the episode has ended, bool[N]; optionally also whether it was truncated, bool[N].
        """
        raise NotImplementedError

    def observe(self) -> Any:
        """Returns the present observations [N, …], nested like the observation space."""
        raise NotImplementedError

    def info(self) -> Mapping[str, Any]:
        """Returns name → array [N, …] for each of `fields`."""
        return {}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        """Returns frames of these environments, uint8[k, height, width, 3]; raises `RenderError` unless overridden."""
        raise RenderError(f"{type(self).__name__} draws no frames: define its render(env_ids)")


def is_batched(made_by: Any) -> TypeGuard[type[BatchedEnv]]:
    """Returns whether this is a class of environments that are stepped all at once."""
    return isinstance(made_by, type) and issubclass(made_by, BatchedEnv)


def options_of(kind: type[BatchedEnv]) -> set[str]:
    """Returns the names of a class's own options."""
    return (arguments_of(kind) - {"num_envs"}) | {LIMIT}


def batched_task(kind: type[BatchedEnv], name: str, /, **options: Any) -> Task:
    """Returns the task of a class derived from `BatchedEnv`.

    Args:
        kind: the class.
        name: the task's name.
        options: arguments of the class, and ``max_episode_steps``.

    Raises:
        OptionError: the class does not take an option, or lacks a space.
    """
    known = options_of(kind)
    if unknown := sorted(options.keys() - known):
        raise OptionError(f"{name} has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
    own = {key: value for key, value in options.items() if key != LIMIT or LIMIT in arguments_of(kind)}
    if "num_envs" not in arguments_of(kind):
        raise OptionError(f"{name}: {kind.__name__}.__init__ must have an argument num_envs, their number")
    env = kind(num_envs=1, **own)
    for space in ("observation_space", "action_space"):
        if not isinstance(getattr(env, space, None), gym.Space):
            raise OptionError(f"{name} needs an {space}, a gymnasium.Space: the one of a single environment")
    spec = TaskSpec(
        name,
        env.observation_space,
        env.action_space,
        tuple(env.fields),
        max_episode_steps=options.get(LIMIT, env.max_episode_steps),
        options=options,
        render_fps=env.render_fps,
    )
    return Task(spec, partial(BatchedExecutor, partial(kind, **own)))


class BatchedExecutor(HostExecutor):
    """The executor of `BatchedEnv`.

    Args:
        make: a function that makes ``num_envs`` environments.
    """

    pickles: ClassVar[bool] = False
    background = False  # what was sent waits for `recv`
    finishes_steps = False
    waiting = False

    def __init__(self, make: Callable[..., BatchedEnv], spec: TaskSpec, settings: PoolSettings, ring: BatchRing):
        if settings.device != "cpu":
            raise OptionError(
                f"{spec.task} returns its results on the CPU, not on {settings.device!r}; its class may compute on any"
            )
        n = settings.num_envs
        self._spec, self._settings, self._ring = spec, settings, ring
        self._env = make(num_envs=n)
        self._all = np.arange(n, dtype=np.int32)
        self._seeds, self._episode = settings.seeds.copy(), np.zeros(n, np.uint64)
        self._elapsed, self._over = np.zeros(n, np.int32), np.zeros(n, bool)
        self._leaves = [(path, leaf_name(OBS, path), leaf) for path, leaf in leaves(spec.observation).items()]
        self._sent: deque[tuple[int, Any, bool]] = deque()  # environment, its action, whether it is a reset
        self._sizes: deque[int] = deque()  # of a synchronous pool's calls

    def bind(self, batch: Batch) -> None:
        pass

    def check_some(self, env_ids: np.ndarray) -> None:
        if len(env_ids) < self._settings.num_envs:
            self._check_state("some of its environments cannot be stepped without the others")

    def step(self, actions: Any, env_ids: np.ndarray | None, batch: Batch) -> None:
        ids = self._all if env_ids is None else env_ids
        self._serve(ids, actions, np.zeros(len(ids), bool), batch)

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: Batch) -> None:
        ids = self._all if env_ids is None else env_ids
        self._seed(ids, seeds)
        self._serve(ids, None, np.ones(len(ids), bool), batch)

    def _seed(self, ids: np.ndarray, seeds: np.ndarray | None) -> None:
        if seeds is not None:
            self._seeds[ids], self._episode[ids] = seeds, 0

    # -- a call ----------------------------------------------------------------------------------

    def _serve(self, ids: np.ndarray, actions: Any, begins: np.ndarray, batch: Batch) -> None:
        """Steps environments, or begins episodes where ``begins``, bool[k]; fills the rows of a batch in this order."""
        rows, mode, n = batch.arrays, self._settings.autoreset, self._settings.num_envs
        of = slice(None) if ids is self._all else ids
        if mode == "next_step":
            begins = begins | self._over[ids]
        reward, over = np.zeros(n, np.float32), np.zeros((2, n), bool)
        if not begins.all():
            reward, over = self._step(ids, actions, begins)
        self._begin(_mask(n, ids[begins]))
        terminated, truncated = over
        truncated |= (self._elapsed == self._spec.max_episode_steps) & (self._spec.max_episode_steps > 0)
        stepped = ~begins
        rows["reward"][:] = reward[of] * stepped
        rows["terminated"][:], rows["truncated"][:] = terminated[of] & stepped, truncated[of] & stepped
        rows["env_id"][:] = ids
        self._over[of] = ended = rows["terminated"] | rows["truncated"]
        if mode == "same_step" and ended.any():
            self._show(of, rows, FINAL)
            self._begin(_mask(n, ids[ended]))
        self._show(of, rows)

    def _step(self, ids: np.ndarray, actions: Any, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps environments ``ids``; returns all rewards [N], and whether episodes have terminated and truncated."""
        name, n = f"{self._spec.task}'s step", self._settings.num_envs
        some = len(ids) < n
        before = {key: np.array(_numpy(value)) for key, value in self._env.state.items()} if some else {}
        # a copy, as the class may keep it, and the caller may change theirs
        actions = _spread(actions, ids, n) if some or ids is not self._all else mapped(np.copy, actions)
        result = self._env.step(actions)
        self._elapsed[ids[~begins]] += 1
        if some:
            others = np.flatnonzero(~_mask(n, ids))
            for key, value in before.items():
                self._env.state[key] = _with_rows(self._env.state[key], others, value[others])
        if not isinstance(result, tuple) or len(result) not in (2, 3):
            raise SimulatorError(
                f"{name} must return rewards and ends, and may return truncations, not {result!r:.200}"
            )
        reward, *ends = map(_numpy, result)
        reward = _checked(f"the rewards of {name}", reward, (n,), np.dtype(np.float32))
        ends = [_checked(f"the ends of {name}", each, (n,), np.dtype(np.bool_)) for each in ends]
        return reward, np.stack([ends[0], ends[1] if len(ends) > 1 else np.zeros(n, bool)])

    def _begin(self, mask: np.ndarray) -> None:
        """Begins the next episodes of environments, bool[N]."""
        if not mask.any():
            return
        seeds = mixed(self._seeds + mixed(self._episode))
        self._env.reset(mask, seeds)
        self._episode[mask] += np.uint64(1)
        self._elapsed[mask] = 0
        self._over[mask] = False

    def _show(self, of: np.ndarray | slice, rows: Mapping[str, np.ndarray], prefix: str = "") -> None:
        """Writes the observations, infos and elapsed steps of environments."""
        n, task = self._settings.num_envs, self._spec.task
        seen = self._env.observe()
        for path, name, leaf in self._leaves:
            shape, dtype = (n, *(leaf.shape or ())), np.dtype(leaf.dtype)
            rows[prefix + name][:] = _checked(f"{name} of {task}", _numpy(at(seen, path)), shape, dtype)[of]
        told = self._env.info() if self._spec.info else {}
        for field in self._spec.info:
            if field.name not in told:
                raise SimulatorError(f"{task}'s info has no {field.name!r}, which its fields name")
            what, shape = f"info {field.name!r} of {task}", (n, *field.shape)
            rows[prefix + INFO + field.name][:] = _checked(what, _numpy(told[field.name]), shape, field.dtype)[of]
        rows[prefix + "elapsed_step"][:] = self._elapsed[of]

    # -- sending and receiving -------------------------------------------------------------------

    def send(self, actions: Any, env_ids: np.ndarray) -> None:
        self._sent += ((int(env), _copied(actions, row), False) for row, env in enumerate(env_ids))
        self._sizes.append(len(env_ids))

    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        self._seed(env_ids, seeds)
        self._sent += ((int(env), None, True) for env in env_ids)
        self._sizes.append(len(env_ids))

    def recv(self, timeout: float | None) -> Batch:
        size = self._settings.batch_size if self._settings.is_async else self._sizes.popleft()
        calls = [self._sent.popleft() for _ in range(size)]
        ids, begins = np.array([env for env, *_ in calls], np.int32), np.array([begin for *_, begin in calls])
        batch = self._ring.take(size)
        known = next((action for _, action, begin in calls if not begin), None)
        self._serve(ids, _joined([known if begin else action for _, action, begin in calls]), begins, batch)
        return batch

    def discard(self) -> None:
        self._sent.clear()
        self._sizes.clear()

    # -- states ----------------------------------------------------------------------------------

    def _check_state(self, otherwise: str) -> None:
        for key, value in self._env.state.items():
            array = _numpy(value)
            if array.dtype.hasobject or array.shape[:1] != (self._settings.num_envs,):
                raise SimulatorError(f"{self._spec.task}: state[{key!r}] is no array of numbers with a row each")
        if not self._env.state:
            raise UnsupportedError(f"{self._spec.task} keeps nothing in self.state: {otherwise}")

    def _arrays(self) -> dict[str, np.ndarray]:
        """Returns all that an environment's next results follow from, a row for each."""
        self._check_state("its environments cannot be saved")
        counts = {"seed": self._seeds, "episode": self._episode, "elapsed": self._elapsed, "over": self._over}
        return counts | {f"state:{key}": _numpy(value) for key, value in self._env.state.items()}

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        arrays = self._arrays()
        mark = _mark(arrays)
        return [mark + b"".join(np.ascontiguousarray(array[e]).tobytes() for array in arrays.values()) for e in env_ids]

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        arrays = self._arrays()
        mark, sizes = _mark(arrays), [array[0].nbytes for array in arrays.values()]
        for blob in blobs:
            if not blob.startswith(mark) or len(blob) != len(mark) + sum(sizes):
                raise StateError(f"this is no state of {self._spec.task}, or one of another version of it")
        begin = len(mark)
        for (key, array), size in zip(arrays.items(), sizes, strict=True):
            joined = bytearray().join(blob[begin : begin + size] for blob in blobs)  # which may be written
            rows = np.frombuffer(joined, array.dtype).reshape(len(blobs), *array.shape[1:])
            kind, _, name = key.partition(":")
            if kind == "state":
                self._env.state[name] = _with_rows(self._env.state[name], env_ids, rows)
            else:
                array[env_ids] = rows
            begin += size

    def state_arrays(self) -> Mapping[str, Any]:
        return {key: _numpy(value) for key, value in self._env.state.items()}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        return rgb_frames(self._spec.task, list(_numpy(self._env.render(env_ids))))

    def close(self) -> None:
        env = vars(self).pop("_env", None)
        vars(self).clear()
        if close := getattr(env, "close", None):
            close()


def _mask(n: int, ids: np.ndarray) -> np.ndarray:
    mask = np.zeros(n, bool)
    mask[ids] = True
    return mask


def _mark(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns eight bytes that identify the names and forms of arrays: their class may have changed since."""
    form = [(key, array.dtype.str, array.shape[1:]) for key, array in arrays.items()]
    return hashlib.blake2b(repr(form).encode(), digest_size=8).digest()


def _numpy(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _with_rows(array: Any, ids: np.ndarray, rows: np.ndarray) -> Any:
    """Returns an array of NumPy, JAX or PyTorch with other rows, which is the same one where it can be changed."""
    if hasattr(array, "at"):  # JAX's arrays do not change
        return array.at[ids].set(rows)
    array[ids] = array.new_tensor(rows) if hasattr(array, "new_tensor") else rows
    return array


def _spread(actions: Any, ids: np.ndarray, n: int) -> Any:
    """Returns actions for all environments, in order; those without one have the first."""

    def spread(rows: np.ndarray) -> np.ndarray:
        every = np.repeat(rows[:1], n, axis=0)
        every[ids] = rows
        return every

    return mapped(spread, actions)


def _copied(actions: Any, row: int) -> Any:
    return mapped(lambda each: each[row].copy(), actions)


def _joined(actions: list[Any]) -> Any:
    return None if actions[0] is None else mapped(lambda *each: np.stack(each), *actions)


def _checked(what: str, array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns an array in this dtype; raises `SimulatorError` for another shape, or numbers that it cannot hold."""
    if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise SimulatorError(f"{what} must be {dtype}{list(shape)}, not {array.dtype}{list(array.shape)}")
    return array.astype(dtype, copy=False)
