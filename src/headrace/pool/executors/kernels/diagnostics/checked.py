"""Arrays and structs of interpreted functions, which check every index and every name.

Arrays that track which elements have been set also check every read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import warp as wp

from headrace.pool.executors.kernels.diagnostics.races import READ, WRITE, Place

SCALARS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
NUMPY: dict[Any, Any] = {getattr(wp, name): getattr(np, name) for name in SCALARS}
NUMPY |= {wp.bool: np.bool_, float: np.float32, int: np.int32, bool: np.bool_}

Note = Callable[[Place, str], None]


class NotSetError(ValueError):
    """An element was read, or is part of a result, although it was never set."""


class Array:
    """One array of a struct, whose indices are checked.

    Args:
        name: its name in messages, such as ``state.x``.
        values: its memory; elements that are vectors take its last axes.
        dtype: the Warp type of its elements.
        owner: a function that returns what the first index counts, for messages, and its only valid value at present;
            None if all values are valid.
        known: bool, of the shape of ``values``: which elements have been set; None if all have.
        note: called with the indices of each scalar used and the kind of access, see `races.Watch`; None to record
            nothing.
    """

    def __init__(
        self,
        name: str,
        values: np.ndarray,
        dtype: Any,
        owner: Callable[[], tuple[str, int]] | None = None,
        known: np.ndarray | None = None,
        note: Note | None = None,
    ):
        self.name, self.values, self.dtype, self.owner = name, values, dtype, owner
        self.known, self.note = known, note
        self.ndim = values.ndim - (0 if dtype in NUMPY else len(dtype._shape_))
        self.shape = values.shape[: self.ndim]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        place = self._place(index)
        if len(place) < self.ndim:
            return self._part(place, self.dtype)
        self._used(place, READ)
        return self._read(place)

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self._whole(index)
        self._used(place, WRITE)
        self._write(place, value)

    def change(self, index: Any, kind: str, change: Callable[[Any], Any]) -> Any:
        """Replaces one element by ``change(element)``, as an atomic operation of this kind; returns its old value."""
        place = self._whole(index)
        self._used(place, kind)
        before = self._read(place)
        self._write(place, change(before))
        return before

    def element(self, index: Any) -> Array:
        """Returns the vector at this index as an array, to write its components."""
        return self._part(self._place(index), getattr(self.dtype, "_wp_scalar_type_", self.dtype))

    def _part(self, place: Place, dtype: Any) -> Array:
        known = None if self.known is None else self.known[place]
        note = None if self.note is None else partial(_note_within, self.note, place)
        return Array(f"{self.name}[{_text(place)}]", self.values[place], dtype, known=known, note=note)

    def _read(self, place: Place) -> Any:
        if self.known is not None and not self.known[place].all():
            raise NotSetError(f"{self.name}[{_text(place)}] is read, but was never set")
        value = self.values[place]
        return value if self.dtype in NUMPY else self.dtype.from_buffer_copy(np.ascontiguousarray(value))

    def _write(self, place: Place, value: Any) -> None:
        if self.dtype in NUMPY:
            self.values[place] = value
        else:
            self.values[place] = np.frombuffer(value, self.values.dtype).reshape(self.dtype._shape_)
        if self.known is not None:
            self.known[place] = True

    def _used(self, place: Place, kind: str) -> None:
        if self.note is None:
            return
        for component in ((),) if self.dtype in NUMPY else np.ndindex(*self.dtype._shape_):
            self.note(place + component, kind)

    def _whole(self, index: Any) -> Place:
        place = self._place(index)
        if len(place) < self.ndim:
            raise IndexError(f"{self.name}[{_text(place)}] is not one element: {self.name} has {self.ndim} dimensions")
        return place

    def _place(self, index: Any) -> Place:
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


def _note_within(note: Note, outer: Place, inner: Place, kind: str) -> None:
    note(outer + inner, kind)


def _text(place: Place) -> str:
    return ", ".join(map(str, place))
