"""Pickles of environments, with their large arrays apart, so that what several environments hold is found to be equal.

Environments often hold data that never changes, such as a table of prices, which all environments of a pool have alike.
The contents of large arrays and `bytes` therefore stand behind the pickle, each in whole blocks counted from the end of
the state. Equal arrays are equal blocks, of which a checkpoint keeps one.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from headrace.pool import by_value
from headrace.pool.state import BLOCK

Place = tuple[int, int, bool]
"""the position of contents, in bytes before the end of the state; their size; whether they are read-only"""


class _SplitPickler:
    """A mixin of picklers that leaves out large contents, and appends them to ``blocks``."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)  # type: ignore[call-arg]
        self.blocks: list[bytes] = []
        self._size = 0
        self._known: dict[int, tuple[Any, Place]] = {}  # by id; the objects are kept, so that no id is used twice

    def persistent_id(self, value: Any) -> Place | None:
        """Returns the place of large contents, which the pickle then holds in their stead; None for other objects."""
        if type(value) is bytes:
            contents, fixed = value, True
        elif type(value) is pickle.PickleBuffer:  # the memory of an array
            contents, fixed = value.raw(), value.raw().readonly
        else:
            return None
        if (size := len(contents)) < BLOCK:
            return None
        if id(value) not in self._known:
            self.blocks.append(bytes(contents) + bytes(-size % BLOCK))
            self._size += len(self.blocks[-1])
            self._known[id(value)] = value, (self._size, size, fixed)
        return self._known[id(value)][1]


class _Pickler(_SplitPickler, pickle.Pickler):
    pass


class _PicklerByValue(_SplitPickler, by_value.Pickler):
    pass


class _Unpickler(pickle.Unpickler):
    def __init__(self, state: bytes):
        super().__init__(io.BytesIO(state))
        self._state = memoryview(state)
        self._fixed: dict[Place, bytes] = {}

    def persistent_load(self, place: Place) -> bytes | bytearray:
        before, size, fixed = place
        contents = self._state[len(self._state) - before :][:size]
        return self._fixed.setdefault(place, bytes(contents)) if fixed else bytearray(contents)


def dumped(value: Any) -> bytes:
    """Returns the state that an object is in, after loading it once as a check.

    Raises:
        TypeError: the object cannot be pickled.
    """
    try:
        return _dumped(_Pickler, loaded(_dumped(_Pickler, value)))
    except (pickle.PicklingError, AttributeError):  # a class of the user's own script, which is pickled by value
        state = _dumped(_PicklerByValue, value)
        loaded(state)
        return state


def _dumped(pickler: type[_Pickler] | type[_PicklerByValue], value: Any) -> bytes:
    file = io.BytesIO()
    writer = pickler(file)
    writer.dump(value)
    return b"".join((file.getvalue(), *reversed(writer.blocks)))


def loaded(state: bytes) -> Any:
    """Returns the object of a state, also of one that is a plain pickle."""
    return _Unpickler(state).load()
