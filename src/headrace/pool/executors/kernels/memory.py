"""Named arrays in memory that kernels and NumPy share, and their conversion to bytes and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import warp as wp

from headrace.errors import StateError
from headrace.pool.executors.kernels.launch import quiet, view_of

MOST_DIMENSIONS = 4  # of a Warp array


def array_fields(struct: Any) -> dict[str, Any]:
    """Returns name → Warp array type of the array fields of a `warp.struct`."""
    return {name: var.type for name, var in struct.vars.items() if wp.types.is_array(var.type)}


def scalar_fields(struct: Any) -> list[str]:
    """Returns the names of the fields of a `warp.struct` that are not arrays."""
    return [name for name, var in struct.vars.items() if not wp.types.is_array(var.type)]


def row_shape(name: str, shapes: Mapping[str, Any], scalars: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the shape of one row of an array field, with the names of scalars replaced by their values."""
    return tuple(scalars[extent] if isinstance(extent, str) else extent for extent in shapes.get(name, ()))


class AnyTable(Protocol):
    """Rows for the array fields of a `warp.struct`, in NumPy's or torch's memory.

    Attributes:
        struct: the struct's instance, as kernels take it.
        arrays: name → array or tensor [rows, …] over the same memory; without those that all rows share.
        dtypes: name → NumPy dtype of the values in the struct.
    """

    struct: Any
    arrays: dict[str, Any]
    dtypes: dict[str, np.dtype]


class Table:
    """Arrays with one row for each environment, for the array fields of a `warp.struct`.

    Attributes:
        struct: the struct's instance, as kernels take it.
        arrays: name → NumPy array [rows, …] over the same memory; without those that all rows share.
        dtypes: name → its dtype.
    """

    def __init__(
        self,
        struct: Any,
        rows: int,
        shapes: Mapping[str, tuple[int | str, ...]] | None = None,
        scalars: Mapping[str, Any] | None = None,
        shared: Mapping[str, np.ndarray] | None = None,
    ):
        self.struct = struct()
        self.arrays: dict[str, np.ndarray] = {}
        shared, scalars = shared or {}, scalars or {}
        for name, kind in array_fields(struct).items():
            if name in shared:
                with quiet():
                    setattr(self.struct, name, wp.array(shared[name], dtype=kind.dtype, ndim=kind.ndim, device="cpu"))
                continue
            shape = (rows, *row_shape(name, shapes or {}, scalars))
            with quiet():
                array = wp.zeros(shape, dtype=kind.dtype, device="cpu")
            setattr(self.struct, name, array)
            self.arrays[name] = array.numpy()
        self.dtypes = {name: array.dtype for name, array in self.arrays.items()}
        for name in scalar_fields(struct):
            setattr(self.struct, name, scalars[name])


class HostMemory:
    """An allocator of NumPy arrays that kernels read and write; implements `simulation.Memory`."""

    table = Table

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.zeros(shape, dtype)

    def put(self, array: np.ndarray, values: np.ndarray) -> None:
        """Copies ``values`` into an array of the same shape."""
        array[:] = values


HOST = HostMemory()


def struct_over(struct: Any, arrays: Mapping[str, Any]) -> Any:
    """Returns an instance of a `warp.struct` over the given arrays or tensors; other array fields stay empty.

    An array of more dimensions than Warp has is seen with its last ones as one.
    """
    instance = struct()
    for name, kind in array_fields(struct).items():
        if name in arrays:
            array = arrays[name]
            if array.ndim > MOST_DIMENSIONS:
                array = array.reshape(*array.shape[: MOST_DIMENSIONS - 1], -1)
            setattr(instance, name, view_of(array, kind.dtype))
    return instance


def pack_rows(arrays: Sequence[np.ndarray], ids: np.ndarray) -> list[bytes]:
    """Returns the bytes of the rows ``ids``, int[k], of all arrays [N, …], one `bytes` for each row."""
    parts = [array[ids].reshape(len(ids), -1).view(np.uint8) for array in arrays]
    return [row.tobytes() for row in np.hstack(parts)]


class SavedField(NamedTuple):
    """One array of a saved state: its name, and dtype and shape of an environment's row.

    ``bounds`` are the least and the greatest valid value, numbers or arrays that broadcast to a row, or the set of
    valid values; None if every value is valid.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    bounds: tuple[Any, Any] | frozenset[int] | None = None

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


def saved_fields(table: AnyTable, bounds: Mapping[str, tuple[Any, Any] | frozenset[int]]) -> list[SavedField]:
    """Returns the fields of a table's rows in a saved state, with the bounds of those that ``bounds`` names."""
    return [
        SavedField(name, table.dtypes[name], tuple(array.shape[1:]), bounds.get(name))
        for name, array in table.arrays.items()
    ]


def unpacked_rows(fields: Sequence[SavedField], ids: np.ndarray, blobs: Sequence[bytes]) -> list[np.ndarray]:
    """Returns the rows [k, …] of each field from the bytes that `pack_rows` returned for the rows ``ids``, int[k].

    Raises:
        StateError: the bytes of a row have a wrong size, or a value is not valid.
    """
    sizes = [f.nbytes for f in fields]
    for env_id, blob in zip(ids, blobs, strict=True):
        if len(blob) != sum(sizes):
            raise StateError(f"the state for environment {env_id} has {len(blob)} bytes; this task needs {sum(sizes)}")
    table = np.frombuffer(bytearray().join(blobs), np.uint8).reshape(len(ids), -1)
    parts = np.split(table, np.cumsum(sizes)[:-1], axis=1)
    rows = [
        np.ascontiguousarray(part).view(f.dtype).reshape(len(ids), *f.shape)
        for f, part in zip(fields, parts, strict=True)
    ]
    for f, values in zip(fields, rows, strict=True):
        _check_values(f, values, ids)
    return rows


def _check_values(field: SavedField, values: np.ndarray, ids: np.ndarray) -> None:
    """Raises `StateError` unless all values [k, …] of a field lie within its bounds; a bool is 0 or 1."""
    bounds, some = field.bounds, ""
    if field.dtype == np.bool_:
        values, bounds = values.view(np.uint8), (0, 1)
    if bounds is None:
        return
    if isinstance(bounds, frozenset):
        valid, low, high, some = np.isin(values, [*bounds]), min(bounds), max(bounds), "one of those from "
    else:
        kind = field.dtype if field.dtype.kind == "f" else None  # bounds are rounded as the values are
        low, high = (np.asarray(bound, kind) for bound in bounds)
        valid = np.isfinite(values) & (low <= values) & (values <= high)
    if valid.all():
        return
    at = tuple(np.argwhere(~valid)[0].tolist())
    low, high = (np.broadcast_to(bound, values.shape)[at] for bound in (low, high))
    place = "".join(f"[{i}]" for i in at[1:])
    raise StateError(
        f"the state for environment {ids[at[0]]} is not valid: {field.name}{place} is {values[at]}; "
        f"it must be finite, and {some}{low} to {high}"
    )
