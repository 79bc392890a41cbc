"""Memory of kernels in torch tensors: all arrays that kernels read or write are tensors' memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp

from headrace.errors import OptionError
from headrace.pool.executors.kernels.launch import quiet
from headrace.pool.executors.kernels.memory import array_fields, row_shape, scalar_fields
from headrace.pool.torch.tensors import torch_dtype


def check_device(device: str | torch.device) -> str:
    """Returns ``"cpu"`` or ``"cuda:i"``; raises `OptionError` naming the available devices."""
    with quiet():
        usable = wp.get_cuda_device_count() if torch.cuda.is_available() else 0
    here = ["cpu", *(f"cuda:{i}" for i in range(min(usable, torch.cuda.device_count())))]
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        raise OptionError(f"device must be one of {', '.join(here)}, not {device!r}") from None
    index = wanted.index
    if wanted.type == "cuda" and index is None:
        index = torch.cuda.current_device() if usable else 0
    name = "cpu" if wanted.type == "cpu" else f"{wanted.type}:{index or 0}"
    if name not in here:
        raise OptionError(f"there is no device {str(device)!r} here; there is {', '.join(here)}")
    return name


def signed(dtype: Any) -> np.dtype:
    """Returns the dtype under which torch can use the same bytes: unsigned integers become signed ones."""
    dtype = np.dtype(dtype)
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" and dtype.itemsize > 1 else dtype


@dataclass(slots=True)
class DeviceTable:
    """Rows for the array fields of a `warp.struct`, like `headrace.pool.executors.kernels.memory.Table`.

    Attributes:
        struct: the struct's instance, as kernels take it.
        arrays: name → tensor [rows, …], with the dtype that `signed` returns.
        dtypes: name → NumPy dtype of the values in the struct.
        rows: name → the same memory as bytes, uint8 [rows, bytes of a row].
        shared: Warp arrays that all rows share.
    """

    struct: Any
    arrays: dict[str, torch.Tensor]
    dtypes: dict[str, np.dtype]
    rows: dict[str, torch.Tensor]
    shared: list[Any]


class DeviceMemory:
    """An allocator of tensors on one device; implements `headrace.pool.executors.kernels.simulation.Memory`."""

    def __init__(self, device: torch.device):
        self._device, self._name = device, str(device)

    def table(
        self,
        struct: Any,
        rows: int,
        shapes: Mapping[str, tuple[int | str, ...]] | None = None,
        scalars: Mapping[str, Any] | None = None,
        shared: Mapping[str, np.ndarray] | None = None,
    ) -> DeviceTable:
        """Returns rows for a `warp.struct`, all zero.

        Args:
            struct: the `warp.struct`.
            rows: number of rows of each array field.
            shapes: name → shape of one row, where extents may be names of scalar fields; ``()`` by default.
            scalars: name → value of each scalar field.
            shared: name → values of the array fields that all rows share.
        """
        table, shared, scalars = DeviceTable(struct(), {}, {}, {}, []), shared or {}, scalars or {}
        for name, kind in array_fields(struct).items():
            if name in shared:
                with quiet():
                    array = wp.array(shared[name], dtype=kind.dtype, ndim=kind.ndim, device=self._name)
                table.shared.append(array)
            else:
                shape = row_shape(name, shapes or {}, scalars)
                scalar = np.dtype(wp.dtype_to_numpy(getattr(kind.dtype, "_wp_scalar_type_", kind.dtype)))
                inner = (*shape, *getattr(kind.dtype, "_shape_", ()))
                size = int(np.prod(inner, dtype=np.int64)) * scalar.itemsize
                memory = torch.zeros((rows, size), dtype=torch.uint8, device=self._device)
                table.rows[name], table.dtypes[name] = memory, scalar
                dtype = torch_dtype(signed(scalar))
                table.arrays[name] = (memory.view(dtype) if size else memory.to(dtype)).reshape(rows, *inner)
                with quiet():
                    array = wp.array(ptr=memory.data_ptr(), shape=(rows, *shape), dtype=kind.dtype, device=self._name)
            setattr(table.struct, name, array)
        for name in scalar_fields(struct):
            setattr(table.struct, name, scalars[name])
        return table

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> torch.Tensor:
        """Returns a tensor of zeros with the torch dtype of the NumPy dtype ``dtype``."""
        return torch.zeros(shape, dtype=torch_dtype(np.dtype(dtype)), device=self._device)

    def put(self, array: torch.Tensor, values: np.ndarray) -> None:
        """Copies ``values`` from the host into a tensor of the same shape, with the dtype that `signed` returns."""
        array.copy_(torch.from_numpy(values.view(signed(values.dtype))))
