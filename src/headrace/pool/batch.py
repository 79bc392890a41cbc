"""Result batches, which are reused only after all references to their arrays have been dropped.

A pool must not allocate in every step, must not copy a result twice, and must return arrays that are safe to keep.
A `BatchRing` provides all three: executors write directly into a batch's arrays, the caller receives these same
arrays, and a batch is reused only after the caller has dropped every reference to all of them. A caller that keeps
results makes the ring allocate new batches.
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
ALIGNMENT = 64  # bytes: a cache line, and the alignment that JAX needs to use memory without a copy
LOOK_AT = 4  # number of batches that are tested before a new one is made
PARTIAL = 4  # as many times the rows of a whole batch are held in batches of other sizes


def observation_fields(space: gym.Space) -> list[Field]:
    """Returns the fields that hold one observation: ``obs``, or ``obs:key`` for each leaf of a `Dict` or `Tuple`."""
    return leaf_fields(OBS, space)


def batch_fields(spec: TaskSpec, autoreset: AutoresetMode) -> list[Field]:
    """Returns all fields of a batch, in the order in which executors receive them.

    ``obs…`` · ``reward`` · ``terminated`` · ``truncated`` · ``env_id`` · ``elapsed_step`` · ``info:…``, and
    in same-step mode ``final:`` copies of observation, ``elapsed_step`` and info, valid where
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
    """Returns the number of rows of a caller's arrays or tensors for a batch; ``num_envs`` if none are given.

    Raises:
        OptionError: their numbers of rows differ or exceed ``num_envs``, or the batch has no such field.
    """
    for name, array in given.items():
        if name not in fields:
            raise OptionError(f"a batch has no field {name!r}; it has {', '.join(fields)}")
        if not getattr(array, "ndim", 0):
            raise OptionError(f"{name} must be an array with a row for each environment, not a single value")
    rows = {array.shape[0] for array in given.values()} or {num_envs}
    if len(rows) != 1 or not 1 <= min(rows) <= num_envs:
        raise OptionError(f"the arrays of a batch need the same number of rows, 1 to {num_envs}")
    return rows.pop()


class Batch:
    """The arrays of k result rows, and the executor's handle for writing them.

    Attributes:
        arrays: name → array [k, …], in the order of `batch_fields`. Each is the base of its views.
        binding: the executor's handle for filling this batch.
        infos: row → further info of a single environment's step, a dict.
        final_infos: row → further info of the last step of an episode that has ended, a dict.
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
        self.ring = weakref.ref(ring)  # weak: the ring refers to its batches
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
        """Returns ``(obs, reward, terminated, truncated, info)``, whose arrays [rows, …] are this batch's.

        Dicts are new at every call, so that a caller who keeps one keeps references to its arrays.
        """
        info = gathered(self.infos, self.rows) | self._info if self.infos else self._info.copy()
        info["players"] = {"env_id": info["env_id"]}  # as in EnvPool
        if self._final is not None:
            done = self.arrays["terminated"] | self.arrays["truncated"]
            if done.any():
                info["final_obs"] = renewed(self._final) if self._nested else self._final
                info["final_info"] = gathered(self.final_infos, self.rows) | final_info_of(self.arrays)
                info["_final_obs"] = info["_final_info"] = done
        return (renewed(self._obs) if self._nested else self._obs, *self._earned, info)

    def seal(self) -> None:
        """Records the present reference counts as those of an unused batch."""
        self._counts = tuple(map(sys.getrefcount, self._owned))

    def hold(self) -> tuple[np.ndarray, ...]:
        """Returns references that prevent the reuse of this batch as long as they are kept."""
        return tuple(self.arrays.values())

    def is_free(self) -> bool:
        """Returns whether only this batch refers to its arrays (a view counts as a reference)."""
        return tuple(map(sys.getrefcount, self._owned)) == self._counts


Bind = Callable[[Batch], None]
Allocate = Callable[[int], "dict[str, np.ndarray] | None"]


class BatchRing:
    """A source of free batches, which allocates a new one if the oldest few are all in use.

    Batches that a caller keeps for long drop out of the ring, so that neither the search nor the ring's memory grows
    with the number of results kept; nor does its memory grow with the number of sizes that are asked for.

    Args:
        spec, autoreset: determine the fields of a batch.
        whole: number of rows of most batches.
        capacity: number of batches of each size that the ring refers to.
    """

    def __init__(self, spec: TaskSpec, autoreset: AutoresetMode, whole: int, capacity: int = 8):
        self.space = spec.observation
        self.fields = batch_fields(spec, autoreset)
        self._bind: Callable[[], Bind | None] = lambda: None
        self._allocate: Callable[[], Allocate | None] = lambda: None
        self._whole, self._capacity = whole, capacity
        self._batches: dict[int, deque[Batch]] = {}

    def serve(self, bind: Bind, allocate: Allocate) -> None:
        """Prepares every new batch with an executor's methods `bind` and `allocate`.

        The ring holds weak references to them, since the executor refers to the ring: with a reference cycle, the
        memory of a closed pool would be freed only when the garbage collector runs.
        """
        self._bind, self._allocate = weakref.WeakMethod(bind), weakref.WeakMethod(allocate)

    def take(self, rows: int) -> Batch:
        """Returns a free batch of ``rows`` rows, of undefined contents."""
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
        if rows != self._whole:
            self._forget_sizes(rows)
        return batch

    def _forget_sizes(self, needed: int) -> None:
        """Drops batches of other sizes than ``needed`` and the whole, oldest size first, while they have many rows."""
        partial = [rows for rows in self._batches if rows != self._whole]
        held = sum(rows * len(self._batches[rows]) for rows in partial)
        for rows in partial:
            if held <= PARTIAL * self._whole:
                return
            if rows != needed:
                held -= rows * len(self._batches.pop(rows))

    def make(self, rows: int, into: Mapping[str, np.ndarray] | None = None) -> Batch:
        """Returns a new bound batch of ``rows`` rows over the arrays [rows, …] in ``into``, and new ones for others."""
        bind, allocate = self._bind(), self._allocate()
        arrays = None if into or allocate is None else allocate(rows)
        if arrays is None:
            arrays = {f.name: aligned_zeros((rows, *f.shape), f.dtype) for f in self.fields} | dict(into or {})
        batch = Batch(rows, arrays, self)
        if bind is not None:
            bind(batch)
        return batch

    def join(self, batches: list[Batch]) -> Batch:
        """Returns one batch with copies of the rows of several, in order; the only place where results are copied."""
        names = [f.name for f in self.fields]
        arrays = {n: np.concatenate([b.arrays[n] for b in batches]) for n in names}
        joined, first = Batch(sum(b.rows for b in batches), arrays, self), 0
        for batch in batches:
            joined.infos |= {first + row: info for row, info in batch.infos.items()}
            joined.final_infos |= {first + row: info for row, info in batch.final_infos.items()}
            first += batch.rows
        return joined


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns a new array of zeros that begins at a multiple of `ALIGNMENT` bytes and is the base of its views."""
    if dtype.hasobject:
        return np.zeros(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory: Any = np.zeros(size + ALIGNMENT, np.uint8)
    # the base of a view is the innermost array: over a ctypes buffer that is the array made here
    place: Any = (ctypes.c_char * size).from_buffer(memory, -memory.ctypes.data % ALIGNMENT)
    return np.ndarray(shape, dtype, place)


def unresizable(array: Any) -> list[weakref.ref[np.ndarray]]:
    """Returns weak references that prevent an array's memory from moving as long as they are kept.

    Executors hold bare addresses. NumPy refuses to resize an array that has weak references, even with
    ``refcheck=False``; the references cover the arrays of which this one is a view, too.
    """
    references = []
    while isinstance(array, np.ndarray):
        references.append(weakref.ref(array))
        array = array.base
    return references


def observation_of(space: gym.Space, arrays: Mapping[str, Any], prefix: str = "") -> Any:
    """Returns a batch's observation: one array, or nested dicts and tuples of arrays.

    With ``prefix=FINAL`` it is the final observation of ended episodes, or None if the batch has none.
    """
    if prefix and not any(name.startswith(prefix) for name in arrays):
        return None
    return assembled(prefix + OBS, space, arrays)


def info_of(arrays: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns a batch's info dict. With ``prefix=FINAL`` it is the info of the final observation."""
    plain = {k: arrays[prefix + k] for k in ("env_id", "elapsed_step") if prefix + k in arrays}
    start = prefix + INFO
    return plain | {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}


def final_info_of(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the info dict of a batch's final observations, with ``env_id`` and ``players``."""
    env_id = arrays["env_id"]
    return {"env_id": env_id, **info_of(arrays, FINAL), "players": {"env_id": env_id}}
