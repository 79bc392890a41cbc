"""Arrays and structs as interpreted functions see them: every index and every name is checked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import warp as wp

SCALARS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
NUMPY: dict[Any, Any] = {getattr(wp, name): getattr(np, name) for name in SCALARS}
NUMPY |= {wp.bool: np.bool_, float: np.float32, int: np.int32, bool: np.bool_}


class Array:
    """One array of a struct, whose indices are checked.

    Args:
        name: what it is called in messages, such as ``state.x``.
        values: its memory; elements that are vectors take its last axes.
        dtype: the Warp type of its elements.
        owner: the only first index that is allowed at this time, and what it counts; None where all are.
    """

    def __init__(self, name: str, values: np.ndarray, dtype: Any, owner: Callable[[], tuple[str, int]] | None = None):
        self.name, self.values, self.dtype, self.owner = name, values, dtype, owner
        self.ndim = values.ndim - (0 if dtype in NUMPY else len(dtype._shape_))
        self.shape = values.shape[: self.ndim]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        place = self._place(index)
        if len(place) < self.ndim:
            return Array(f"{self.name}[{_text(place)}]", self.values[place], self.dtype)
        value = self.values[place]
        return value if self.dtype in NUMPY else self.dtype.from_buffer_copy(np.ascontiguousarray(value))

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self._place(index)
        if len(place) < self.ndim:
            raise IndexError(f"{self.name}[{_text(place)}] is not one element: {self.name} has {self.ndim} dimensions")
        if self.dtype in NUMPY:
            self.values[place] = value
        else:
            self.values[place] = np.frombuffer(value, self.values.dtype).reshape(self.dtype._shape_)

    def element(self, index: Any) -> Array:
        """The vector at this place, to write its components."""
        place = self._place(index)
        return Array(
            f"{self.name}[{_text(place)}]", self.values[place], getattr(self.dtype, "_wp_scalar_type_", self.dtype)
        )

    def _place(self, index: Any) -> tuple[int, ...]:
        place = tuple(operator.index(i) for i in (index if isinstance(index, tuple) else (index,)))
        if len(place) > self.ndim:
            raise IndexError(
                f"{self.name}[{_text(place)}] has too many indices: {self.name} has {self.ndim} dimensions"
            )
        for axis, (i, extent) in enumerate(zip(place, self.shape, strict=False)):
            if not 0 <= i < extent:
                raise IndexError(
                    f"{self.name}[{_text(place)}] is out of range: axis {axis} of {self.name} has {extent} elements"
                )
        if self.owner is not None:
            what, own = self.owner()
            if place[0] != own:
                raise IndexError(f"{self.name}[{_text(place)}] is not of this {what}, which is {own}")
        return place


class Record:
    """An instance of a `warp.struct`: its fields as attributes."""

    def __init__(self, key: str, fields: Mapping[str, Any]):
        vars(self).update(fields, _key=key)

    def __getattr__(self, name: str) -> Any:
        fields = ", ".join(field for field in vars(self) if field != "_key")
        raise AttributeError(f"{vars(self).get('_key')} has no field {name!r}; it has {fields}")

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        vars(self)[name] = value


def _text(place: tuple[int, ...]) -> str:
    return ", ".join(map(str, place))
