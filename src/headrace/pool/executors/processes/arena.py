"""An allocator of shared memory for results, which reuses a piece once all arrays over it have been freed.

Workers write results into the arrays that the caller receives, so batches lie in shared memory, and callers may keep
them indefinitely. All pieces lie in one anonymous file that grows; a piece is reused after the last array over it has
been freed, and the system frees the file when the last process ends.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import SharedMemoryError
from headrace.limits import limits_named
from headrace.pool.shared import ALIGNMENT, AnonymousFile
from headrace.pool.spec import Field

LEAST_CHUNK = 1 << 20
PIECES = 16  # number of pieces of the largest size that a chunk holds


def layout(fields: Sequence[Field], rows: int) -> tuple[dict[str, int], int]:
    """Returns the offset of each field's array [rows, …] within a piece, and the piece's size, in bytes."""
    places, end = {}, 0
    for f in fields:
        places[f.name] = end
        end += -(-rows * int(np.prod(f.shape, dtype=np.int64)) * f.dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return places, max(end, ALIGNMENT)


def arrays_over(memory: Any, start: int, fields: Sequence[Field], rows: int) -> dict[str, np.ndarray]:
    """Returns arrays [rows, …] over a piece that begins at byte ``start`` of ``memory``, to which they refer."""
    places, _ = layout(fields, rows)
    return {f.name: np.ndarray((rows, *f.shape), f.dtype, buffer=memory, offset=start + places[f.name]) for f in fields}


class Chunks(AnonymousFile):
    """The anonymous file, mapped chunk by chunk on demand; it can be passed to a new process.

    Args:
        size: the size of a chunk in bytes.
    """

    def __init__(self, size: int):
        super().__init__(size)
        self.size, self._mapped = size, dict[int, mmap.mmap]()

    def __getstate__(self) -> Any:
        return super().__getstate__(), self.size

    def __setstate__(self, state: Any) -> None:
        file, self.size = state
        super().__setstate__(file)
        self._mapped = {}

    def at(self, place: int) -> tuple[mmap.mmap, int]:
        """Returns the mapped chunk that holds the piece at ``place``, and the piece's offset in it, in bytes."""
        number, offset = divmod(place, self.size)
        chunk = self._mapped.get(number)
        if chunk is None:
            with limits_named("memory for results to be kept"):
                chunk = self._mapped[number] = mmap.mmap(self.descriptor, self.size, offset=number * self.size)
        return chunk, offset

    def close(self) -> None:
        """Closes the file; chunks stay mapped as long as arrays over them exist."""
        self._mapped.clear()
        super().close()


class Arena:
    """An allocator of pieces of shared memory, each with the arrays of one batch.

    Args:
        fields: the arrays of a piece.
        most_rows: rows of the largest piece.
    """

    def __init__(self, fields: Sequence[Field], most_rows: int):
        self._fields = tuple(fields)
        _, largest = layout(self._fields, most_rows)
        size = max(LEAST_CHUNK, PIECES * largest)
        size = -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self.chunks = Chunks(size)
        self._length, self._next, self._most = size, 0, most_rows
        self._free: dict[int, deque[int]] = defaultdict(deque)  # rows that a piece has room for → places

    def take(self, rows: int) -> tuple[int, dict[str, np.ndarray]]:
        """Returns a piece: its place in the file and its arrays [rows, …], of undefined contents.

        Raises:
            SharedMemoryError: the system has no more memory.
        """
        room = min(1 << (rows - 1).bit_length(), self._most)  # few sizes, so that pieces are soon used again
        free = self._free[room]
        place = free.popleft() if free else self._new(room)
        memory, start = self.chunks.at(place)
        _, length = layout(self._fields, room)
        # NumPy keeps this object as the base of each array, so its finaliser runs when the last array is freed
        piece = (ctypes.c_char * length).from_buffer(memory, start)
        piece.place = place  # pyright: ignore[reportAttributeAccessIssue]
        weakref.finalize(piece, free.append, place).atexit = False
        return place, arrays_over(piece, 0, self._fields, rows)

    def place_of(self, arrays: Mapping[str, np.ndarray]) -> int | None:
        """Returns the place of arrays that `take` returned; None for any others."""
        pieces = {id(arrays[f.name].base): arrays[f.name].base for f in self._fields}
        (piece, *others) = pieces.values()
        return None if others else getattr(piece, "place", None)

    def _new(self, rows: int) -> int:
        _, length = layout(self._fields, rows)
        place, size = self._next, self.chunks.size
        if place % size + length > size:
            place = -(-place // size) * size
        if place + length > self._length:
            self._length = (place // size + 1) * size
            try:
                os.ftruncate(self.chunks.descriptor, self._length)
            except OSError as error:
                raise SharedMemoryError(
                    f"there is no shared memory left for the results that the program keeps: {error}"
                ) from error
        self._next = place + length
        return place

    def close(self) -> None:
        """Closes the file; arrays still in use remain valid."""
        self.chunks.close()
