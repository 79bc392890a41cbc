"""Result batches, which are reused only after all references to their arrays have been dropped.

A pool must not allocate in every step, must not copy a result twice, and must return arrays that are safe to keep.
A `BatchRing` provides all three: executors write directly into a batch's arrays, the caller receives these same
arrays, and a batch is reused only after the caller has dropped every reference to all of them. A caller that keeps
results makes the ring allocate new batches.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.batch_memory import Layout
from headrace.pool.infos import gathered
from headrace.pool.spec import AutoresetMode, Field, TaskSpec
from headrace.pool.structure import assembled, leaf_fields, renewed

FINAL = "final:"
INFO = "info:"
OBS = "obs"
LOOK_AT = 4  # number of recent batches, and of kept ones, that are tested before a new one is made
RETAINED = 64 << 20  # bytes of batches in use that a ring refers to, so as to use them again
OVERHEAD = 256 << 10  # bytes by which each counts beside its arrays: hundreds come back from caches, thousands do not
SIZES = 64  # numbers of rows whose layouts are remembered
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
        "_addresses",
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

    def __init__(
        self, rows: int, arrays: dict[str, np.ndarray], ring: BatchRing, addresses: Sequence[int] | None = None
    ):
        self.rows = rows
        self.arrays = arrays
        self.ring = ring.reference  # weak: the ring refers to its batches
        self.binding: Any = None
        self.infos: dict[int, dict[str, Any]] = {}
        self.final_infos: dict[int, dict[str, Any]] = {}
        self._obs = arrays[OBS] if OBS in arrays else assembled(OBS, ring.space, arrays)
        self._final = assembled(FINAL + OBS, ring.space, arrays) if ring.has_final else None
        self._nested = not isinstance(self._obs, np.ndarray)
        self._earned = (arrays["reward"], arrays["terminated"], arrays["truncated"])
        self._info: dict[str, Any] = {key: arrays[name] for key, name in ring.info_names}
        self._owned = tuple(arrays.values())
        self._held: Sequence[Any] = ()
        if addresses is None:  # NumPy never resizes those of a `Layout`, as they do not own their memory
            self._held = [reference for array in self._owned for reference in unresizable(array)]
        self._addresses = addresses
        self._counts: tuple[int, ...] = ()

    @property
    def addresses(self) -> Sequence[int]:
        """The addresses of the arrays, in their order."""
        if self._addresses is None:
            self._addresses = [array.ctypes.data for array in self._owned]
        return self._addresses

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
        counts, refcount = self._counts, sys.getrefcount
        # a caller that keeps anything keeps the first array, nearly always
        return refcount(self._owned[0]) == counts[0] and tuple(map(refcount, self._owned)) == counts


class Preparing(Protocol):
    """The part of a `HostExecutor` that new batches need."""

    def bind(self, batch: Batch) -> None: ...

    def allocate(self, rows: int) -> dict[str, np.ndarray] | None: ...


class _Batches:
    """The batches of one size that a ring refers to, each deque in the order of their last use, oldest first.

    Attributes:
        recent: the latest few; one of them is nearly always free unless the caller keeps results.
        kept: older ones: a caller that keeps some results at a time, such as a rollout, frees them before long.
        missed: whether none was found free the last time, so that few are looked at.
    """

    __slots__ = ("kept", "missed", "recent")

    def __init__(self, capacity: int, most_kept: int):
        self.recent: deque[Batch] = deque(maxlen=capacity)
        self.kept: deque[Batch] = deque(maxlen=most_kept)
        self.missed = False

    def free(self) -> Batch | None:
        """Returns one of the oldest if it is free; None if they are all in use."""
        most = 2 if self.missed else LOOK_AT
        self.missed = False
        for looks, batch in enumerate(self.recent, 1):
            if batch.is_free():
                self.recent.rotate(-looks)
                return batch
            if looks == most:
                break
        for _ in range(min(len(self.kept), most)):
            batch = self.kept.popleft()
            if batch.is_free():
                self.add(batch)
                return batch
            self.kept.append(batch)  # it may be kept for ever, and others not
        self.missed = True
        return None

    def add(self, batch: Batch) -> None:
        """Adds a batch that is used now."""
        if len(self.recent) == self.recent.maxlen:
            self.kept.append(self.recent[0])
        self.recent.append(batch)

    def __iter__(self) -> Iterator[Batch]:
        yield from self.recent
        yield from self.kept

    def __len__(self) -> int:
        return len(self.recent) + len(self.kept)


class BatchRing:
    """A source of free batches, which makes a new one if the oldest few are all in use.

    Batches that a caller keeps return to the ring when it drops them, up to `RETAINED` bytes; what is kept beyond that
    drops out. So neither the search nor the ring's memory grows with the number of results kept; nor does its memory
    grow with the number of sizes that are asked for.

    Args:
        spec, autoreset: determine the fields of a batch.
        whole: number of rows of most batches.
        capacity: number of batches of each size that the ring refers to, beside those that the caller keeps.

    Attributes:
        space: the space of one observation.
        fields: those of a batch.
        has_final: whether a batch has final observations.
        info_names: (key, field) of each array in a batch's info.
        reference: a weak reference to the ring.
    """

    def __init__(self, spec: TaskSpec, autoreset: AutoresetMode, whole: int, capacity: int = 8):
        self.space = spec.observation
        self.fields = batch_fields(spec, autoreset)
        self.has_final = autoreset == "same_step"
        self.info_names = tuple(info_of({f.name: f.name for f in self.fields}).items())
        self._names = [f.name for f in self.fields]
        self._objects = [f for f in self.fields if f.dtype.hasobject]
        self._layout = lru_cache(SIZES)(partial(Layout, [f for f in self.fields if not f.dtype.hasobject]))
        self.reference = weakref.ref(self)
        self._executor: Callable[[], Preparing | None] = lambda: None
        self._whole, self._capacity = whole, capacity
        self._batches: dict[int, _Batches] = {}

    def serve(self, executor: Preparing) -> None:
        """Prepares every new batch with an executor's methods `bind` and `allocate`.

        The ring holds a weak reference to it, since the executor refers to the ring: with a reference cycle, the
        memory of a closed pool would be freed only when the garbage collector runs.
        """
        self._executor = weakref.ref(executor)

    def take(self, rows: int) -> Batch:
        """Returns a free batch of ``rows`` rows, of undefined contents."""
        known = self._batches.get(rows)
        if known is not None and (batch := known.free()) is not None:
            return batch
        batch = self.make(rows)
        batch.seal()
        if known is None:
            size = OVERHEAD + sum(array.nbytes for array in batch.arrays.values())
            known = self._batches[rows] = _Batches(self._capacity, RETAINED // size)
        known.add(batch)
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
        executor, addresses = self._executor(), None
        arrays = None if into or executor is None else executor.allocate(rows)
        if arrays is None:
            arrays, addresses = self._layout(rows).make()
            if into or self._objects:
                objects = {f.name: np.zeros((rows, *f.shape), f.dtype) for f in self._objects}
                given = {**arrays, **objects, **(into or {})}
                arrays, addresses = {name: given[name] for name in self._names}, None
        batch = Batch(rows, arrays, self, addresses)
        if executor is not None:
            executor.bind(batch)
        return batch

    def join(self, batches: list[Batch]) -> Batch:
        """Returns one batch with copies of the rows of several, in order; the only place where results are copied."""
        arrays = {n: np.concatenate([b.arrays[n] for b in batches]) for n in self._names}
        joined, first = Batch(sum(b.rows for b in batches), arrays, self), 0
        for batch in batches:
            joined.infos |= {first + row: info for row, info in batch.infos.items()}
            joined.final_infos |= {first + row: info for row, info in batch.final_infos.items()}
            first += batch.rows
        return joined


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
