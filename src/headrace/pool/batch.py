"""Where results are written: batches that are reused only when nobody looks at them.

A pool must not allocate in every step, must not copy a result twice, and must
return arrays that are safe to keep. A `BatchRing` gives all three: executors write
straight into a batch's arrays, the caller gets those very arrays, and a batch is
used again only after the caller has dropped every reference to all of them. A
caller that keeps results simply makes the ring grow.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.spec import AutoresetMode, Field, TaskSpec

if TYPE_CHECKING:
    from headrace.pool.executor import Executor

FINAL = "final:"
INFO = "info:"
OBS = "obs"
LOOK_AT = 4  # batches that may be in use before a new one is made


def observation_fields(space: gym.Space) -> list[Field]:
    """The arrays that hold one observation: ``obs``, or ``obs:key`` for each entry of a `Dict`."""
    if isinstance(space, gym.spaces.Dict):
        return [Field(f"{OBS}:{key}", np.dtype(sub.dtype), tuple(sub.shape or ())) for key, sub in space.spaces.items()]
    return [Field(OBS, np.dtype(space.dtype), tuple(space.shape or ()))]


def batch_fields(spec: TaskSpec, autoreset: AutoresetMode) -> list[Field]:
    """All arrays of a batch, in the order in which executors receive them.

    ``obs…`` · ``reward`` · ``terminated`` · ``truncated`` · ``env_id`` · ``elapsed_step`` · ``info:…``, and
    in same-step mode ``final:`` twins of observation, ``elapsed_step`` and info, valid where
    ``terminated | truncated``.
    """
    described = [*observation_fields(spec.observation)]
    elapsed = Field("elapsed_step", np.dtype(np.int32))
    infos = [Field(INFO + f.name, f.dtype, f.shape) for f in spec.info]
    fields = [
        *described,
        Field("reward", np.dtype(np.float32), spec.reward_shape),
        Field("terminated", np.dtype(np.bool_)),
        Field("truncated", np.dtype(np.bool_)),
        Field("env_id", np.dtype(np.int32)),
        elapsed,
        *infos,
    ]
    if autoreset == "same_step":
        fields += [Field(FINAL + f.name, f.dtype, f.shape) for f in (*described, elapsed, *infos)]
    return fields


def rows_of(given: Mapping[str, Any], fields: Mapping[str, Field], num_envs: int) -> int:
    """How many rows a caller's arrays or tensors for a batch have; ``num_envs`` where none are given.

    Raises:
        OptionError: they differ in it, it is more than the pool has environments, or the batch has no such field.
    """
    rows = {array.shape[0] if getattr(array, "ndim", 0) else -1 for array in given.values()} or {num_envs}
    if len(rows) != 1 or not 1 <= min(rows) <= num_envs:
        raise OptionError(f"the arrays of a batch need the same number of rows, 1 to {num_envs}")
    for name in given:
        if name not in fields:
            raise OptionError(f"a batch has no field {name!r}; it has {', '.join(fields)}")
    return rows.pop()


class Batch:
    """The arrays of k result rows, and the executor's handle for writing them.

    Attributes:
        arrays: name → array [k, …], in the order of `batch_fields`. Each owns its memory.
        binding: whatever the executor needs to fill this batch without looking anything up.
    """

    __slots__ = ("_counts", "_info", "_owned", "arrays", "binding", "final", "obs", "result", "ring", "rows")

    def __init__(self, rows: int, arrays: dict[str, np.ndarray], ring: BatchRing):
        self.rows = rows
        self.arrays = arrays
        self.ring = weakref.ref(ring)  # which keeps its batches
        self.binding: Any = None
        self.obs = observation_of(arrays)
        self.final = observation_of(arrays, FINAL)
        self._info = info_of(arrays)
        self.result = (self.obs, arrays["reward"], arrays["terminated"], arrays["truncated"])
        self._owned = tuple(arrays.values())
        self._counts: tuple[int, ...] = ()

    def info(self) -> dict[str, Any]:
        """A fresh info dict over this batch's arrays (`players` nested, as EnvPool has it)."""
        info = self._info.copy()
        info["players"] = {"env_id": info["env_id"]}
        if self.final is not None:
            done = self.arrays["terminated"] | self.arrays["truncated"]
            if done.any():
                info["final_obs"], info["_final_obs"] = self.final, done
                info["final_info"], info["_final_info"] = info_of(self.arrays, FINAL), done
        return info

    def seal(self) -> None:
        """Take the present number of references as those of a batch that nobody uses."""
        self._counts = tuple(map(sys.getrefcount, self._owned))

    def hold(self) -> tuple[np.ndarray, ...]:
        """References that keep this batch from being reused, for as long as they are kept."""
        return tuple(self.arrays.values())

    def is_free(self) -> bool:
        """Whether nobody but this batch refers to its arrays (views hold a reference to them)."""
        return tuple(map(sys.getrefcount, self._owned)) == self._counts


class BatchRing:
    """Hands out free batches, and makes a new one when the oldest few are all still in use.

    What a caller keeps for long is forgotten here and becomes the caller's alone, so that neither the
    search nor the memory grows with what is kept.

    Args:
        spec, autoreset: what a batch holds.
        capacity: how many batches of one size to remember.
    """

    def __init__(self, spec: TaskSpec, autoreset: AutoresetMode, capacity: int = 8):
        self.fields = batch_fields(spec, autoreset)
        self._executor: weakref.ref[Executor] | None = None
        self._capacity = capacity
        self._batches: dict[int, deque[Batch]] = {}

    def serve(self, executor: Executor) -> None:
        """Have this executor bind every batch that is made; it is not kept, for it keeps the ring.

        Were they to keep each other, a closed pool's memory would wait for the garbage collector, which does not
        know how large it is.
        """
        self._executor = weakref.ref(executor)

    def take(self, rows: int) -> Batch:
        """A batch of so many rows that nobody refers to; its contents are undefined."""
        ring = self._batches.get(rows)
        if ring is None:
            ring = self._batches[rows] = deque(maxlen=self._capacity)
        for _ in range(min(len(ring), LOOK_AT)):
            batch = ring[0]
            ring.rotate(-1)
            if batch.is_free():
                return batch
        batch = self.make(rows)
        batch.seal()
        ring.append(batch)
        return batch

    def make(self, rows: int, into: Mapping[str, np.ndarray] | None = None) -> Batch:
        """A new bound batch; the arrays in ``into`` are used where given."""
        arrays = {f.name: np.zeros((rows, *f.shape), f.dtype) for f in self.fields}
        arrays.update(into or {})
        batch = Batch(rows, arrays, self)
        if self._executor and (executor := self._executor()):
            executor.bind(batch)
        return batch

    def join(self, batches: list[Batch]) -> Batch:
        """One batch with the rows of several, in order; the only place where results are copied."""
        names = [f.name for f in self.fields]
        arrays = {n: np.concatenate([b.arrays[n] for b in batches]) for n in names}
        return Batch(sum(b.rows for b in batches), arrays, self)


def observation_of(arrays: Mapping[str, Any], prefix: str = "") -> Any:
    """A batch's observation: one array, or a dict of them for a `Dict` space. With ``FINAL`` the last, or None."""
    if prefix + OBS in arrays:
        return arrays[prefix + OBS]
    start = prefix + OBS + ":"
    return {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)} or None


def info_of(arrays: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A batch's info by its names outside of the batch. With ``FINAL`` that of the last observation."""
    plain = {k: arrays[prefix + k] for k in ("env_id", "elapsed_step") if prefix + k in arrays}
    start = prefix + INFO
    return plain | {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}
