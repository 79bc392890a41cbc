"""Named arrays in memory that kernels and NumPy share, and their conversion to bytes and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import warp as wp

from headrace.errors import StateError
from headrace.pool.executors.kernels.launch import quiet, view_of


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
    """

    struct: Any
    arrays: dict[str, Any]


class Table:
    """Arrays with one row for each environment, for the array fields of a `warp.struct`.

    Attributes:
        struct: the struct's instance, as kernels take it.
        arrays: name → NumPy array [rows, …] over the same memory; without those that all rows share.
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
        for name in scalar_fields(struct):
            setattr(self.struct, name, scalars[name])


class HostMemory:
    """An allocator of NumPy arrays that kernels read and write; implements `simulation.Memory`."""

    table = Table

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Returns an array of zeros."""
        return np.zeros(shape, dtype)

    def put(self, array: np.ndarray, values: np.ndarray) -> None:
        """Copies ``values`` into an array of the same shape."""
        array[:] = values


HOST = HostMemory()


def struct_over(struct: Any, arrays: Mapping[str, Any]) -> Any:
    """Returns an instance of a `warp.struct` over the given arrays or tensors; other array fields stay empty."""
    instance = struct()
    for name, kind in array_fields(struct).items():
        if name in arrays:
            setattr(instance, name, view_of(arrays[name], kind.dtype))
    return instance


def pack_rows(arrays: Sequence[np.ndarray], ids: np.ndarray) -> list[bytes]:
    """Returns the bytes of the rows ``ids``, int[k], of all arrays [N, …], one `bytes` for each row."""
    parts = [array[ids].reshape(len(ids), -1).view(np.uint8) for array in arrays]
    return [row.tobytes() for row in np.hstack(parts)]


def unpack_rows(arrays: Sequence[np.ndarray], ids: np.ndarray, blobs: Sequence[bytes]) -> None:
    """Writes the bytes that `pack_rows` returned into the rows ``ids``, int[k], of arrays [N, …].

    Raises:
        StateError: a row has a wrong size; no row has been written.
    """
    sizes = [array[:1].nbytes for array in arrays]
    for env_id, blob in zip(ids, blobs, strict=True):
        if len(blob) != sum(sizes):
            raise StateError(f"the state for environment {env_id} has {len(blob)} bytes; this task needs {sum(sizes)}")
    table = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(ids), -1)
    for array, part in zip(arrays, np.split(table, np.cumsum(sizes)[:-1], axis=1), strict=True):
        array[ids] = np.ascontiguousarray(part).view(array.dtype).reshape(len(ids), *array.shape[1:])
