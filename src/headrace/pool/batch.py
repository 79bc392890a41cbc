"""Where results are written: batches that are reused only when nobody looks at them.

A pool must not allocate in every step, must not copy a result twice, and must
return arrays that are safe to keep. A `BatchRing` gives all three: executors write
straight into a batch's arrays, the caller gets those very arrays, and a batch is
used again only after the caller has dropped every reference to all of them. A
caller that keeps results simply makes the ring grow.
"""

from __future__ import annotations

import ctypes
import math
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.infos import gathered
from headrace.pool.spec import AutoresetMode, Field, TaskSpec
from headrace.pool.structure import assembled, leaf_fields, renewed

FINAL = "final:"
INFO = "info:"
OBS = "obs"
ALIGNMENT = 64  # bytes: of a cache line, and of memory that JAX takes as it is
LOOK_AT = 4  # batches that may be in use before a new one is made


def observation_fields(space: gym.Space) -> list[Field]:
    """The arrays that hold one observation: ``obs``, or ``obs:key`` for each leaf of a `Dict` or `Tuple`."""
    return leaf_fields(OBS, space)


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
        arrays: name → array [k, …], in the order of `batch_fields`. Each is the base of its views.
        binding: whatever the executor needs to fill this batch without looking anything up.
        infos, final_infos: what single environments say beside that, and at their episodes' ends: row → info dict.
    """

    __slots__ = (
        "_counts",
        "_earned",
        "_final",
        "_held",
        "_info",
        "_nested",
        "_obs",
        "_owned",
        "arrays",
        "binding",
        "final_infos",
        "infos",
        "ring",
        "rows",
    )

    def __init__(self, rows: int, arrays: dict[str, np.ndarray], ring: BatchRing):
        self.rows = rows
        self.arrays = arrays
        self.ring = weakref.ref(ring)  # which keeps its batches
        self.binding: Any = None
        self.infos: dict[int, dict[str, Any]] = {}
        self.final_infos: dict[int, dict[str, Any]] = {}
        self._obs, self._final = (observation_of(ring.space, arrays, prefix) for prefix in ("", FINAL))
        self._nested = not isinstance(self._obs, np.ndarray)
        self._earned = (arrays["reward"], arrays["terminated"], arrays["truncated"])
        self._info = info_of(arrays)
        self._owned = tuple(arrays.values())
        self._held = [reference for array in self._owned for reference in unresizable(array)]
        self._counts: tuple[int, ...] = ()

    def result(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """The five-tuple of a step over this batch's arrays.

        Its dicts are new at every call and the caller's alone, so that a caller who keeps one refers to its arrays.
        """
        info = gathered(self.infos, self.rows) | self._info if self.infos else self._info.copy()
        info["players"] = {"env_id": info["env_id"]}  # as EnvPool has it
        if self._final is not None:
            done = self.arrays["terminated"] | self.arrays["truncated"]
            if done.any():
                info["final_obs"] = renewed(self._final) if self._nested else self._final
                info["final_info"] = gathered(self.final_infos, self.rows) | final_info_of(self.arrays)
                info["_final_obs"] = info["_final_info"] = done
        return (renewed(self._obs) if self._nested else self._obs, *self._earned, info)

    def seal(self) -> None:
        """Take the present number of references as those of a batch that nobody uses."""
        self._counts = tuple(map(sys.getrefcount, self._owned))

    def hold(self) -> tuple[np.ndarray, ...]:
        """References that keep this batch from being reused, for as long as they are kept."""
        return tuple(self.arrays.values())

    def is_free(self) -> bool:
        """Whether nobody but this batch refers to its arrays (views hold a reference to them)."""
        return tuple(map(sys.getrefcount, self._owned)) == self._counts


Bind = Callable[[Batch], None]
Allocate = Callable[[int], "dict[str, np.ndarray] | None"]


class BatchRing:
    """Hands out free batches, and makes a new one when the oldest few are all still in use.

    What a caller keeps for long is forgotten here and becomes the caller's alone, so that neither the
    search nor the memory grows with what is kept.

    Args:
        spec, autoreset: what a batch holds.
        capacity: how many batches of one size to remember.
    """

    def __init__(self, spec: TaskSpec, autoreset: AutoresetMode, capacity: int = 8):
        self.space = spec.observation
        self.fields = batch_fields(spec, autoreset)
        self._bind: Callable[[], Bind | None] = lambda: None
        self._allocate: Callable[[], Allocate | None] = lambda: None
        self._capacity = capacity
        self._batches: dict[int, deque[Batch]] = {}

    def serve(self, bind: Bind, allocate: Allocate) -> None:
        """Have an executor's methods `bind` and `allocate` prepare every batch that is made.

        They are not kept, for their executor keeps the ring. Were the two to keep each other, a closed pool's memory
        would wait for the garbage collector, which does not know how large it is.
        """
        self._bind, self._allocate = weakref.WeakMethod(bind), weakref.WeakMethod(allocate)

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
        bind, allocate = self._bind(), self._allocate()
        arrays = None if into or allocate is None else allocate(rows)
        if arrays is None:
            arrays = {f.name: aligned_zeros((rows, *f.shape), f.dtype) for f in self.fields} | dict(into or {})
        batch = Batch(rows, arrays, self)
        if bind is not None:
            bind(batch)
        return batch

    def join(self, batches: list[Batch]) -> Batch:
        """One batch with the rows of several, in order; the only place where results are copied."""
        names = [f.name for f in self.fields]
        arrays = {n: np.concatenate([b.arrays[n] for b in batches]) for n in names}
        joined, first = Batch(sum(b.rows for b in batches), arrays, self), 0
        for batch in batches:
            joined.infos |= {first + row: info for row, info in batch.infos.items()}
            joined.final_infos |= {first + row: info for row, info in batch.final_infos.items()}
            first += batch.rows
        return joined


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array of zeros that begins at a multiple of `ALIGNMENT` bytes, and is the base of its views."""
    if dtype.hasobject:
        return np.zeros(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory: Any = np.zeros(size + ALIGNMENT, np.uint8)
    # views of an array over another array have that one as their base: over anything else, it is their base itself
    place: Any = (ctypes.c_char * size).from_buffer(memory, -memory.ctypes.data % ALIGNMENT)
    return np.ndarray(shape, dtype, place)


def unresizable(array: Any) -> list[weakref.ref[np.ndarray]]:
    """References that keep an array's memory where it is while they last.

    Executors know addresses alone. An array that is referred to weakly NumPy does not resize, even where its owner
    asks it to look at no references; the same goes for those that it is a view of.
    """
    references = []
    while isinstance(array, np.ndarray):
        references.append(weakref.ref(array))
        array = array.base
    return references


def observation_of(space: gym.Space, arrays: Mapping[str, Any], prefix: str = "") -> Any:
    """A batch's observation: one array, or dicts and tuples of them. With ``FINAL`` the last, or None without one."""
    if prefix and not any(name.startswith(prefix) for name in arrays):
        return None
    return assembled(prefix + OBS, space, arrays)


def info_of(arrays: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A batch's info by its names outside of the batch. With ``FINAL`` that of the last observation."""
    plain = {k: arrays[prefix + k] for k in ("env_id", "elapsed_step") if prefix + k in arrays}
    start = prefix + INFO
    return plain | {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}


def final_info_of(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """A batch's info of the last observations, whose rows are the same environments'."""
    env_id = arrays["env_id"]
    return {"env_id": env_id, **info_of(arrays, FINAL), "players": {"env_id": env_id}}
