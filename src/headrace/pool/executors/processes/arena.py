"""Memory for results that a pool's processes share, handed out piece by piece and taken back when nobody looks.

Workers write results where the caller receives them, so batches lie in shared memory; and callers may keep them for as
long as they like. All pieces lie in one anonymous file that grows; a piece is used again after the last array over it
is gone, and the system takes everything back when the last process is.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from typing import Any

import numpy as np

from headrace.errors import SharedMemoryError
from headrace.limits import limits_named
from headrace.pool.executors.processes.shared import ALIGNMENT, anonymous_file
from headrace.pool.spec import Field

LEAST_CHUNK = 1 << 20
PIECES = 16  # of the largest kind in a chunk


def layout(fields: Sequence[Field], rows: int) -> tuple[dict[str, int], int]:
    """Where each field's array [rows, …] begins within a piece, in bytes, and how long the piece is."""
    places, end = {}, 0
    for f in fields:
        places[f.name] = end
        end += -(-rows * int(np.prod(f.shape, dtype=np.int64)) * f.dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return places, max(end, ALIGNMENT)


def arrays_over(memory: Any, start: int, fields: Sequence[Field], rows: int) -> dict[str, np.ndarray]:
    """Arrays over a piece that begins at ``start`` within ``memory``; each keeps the memory alive by itself."""
    places, _ = layout(fields, rows)
    return {f.name: np.ndarray((rows, *f.shape), f.dtype, buffer=memory, offset=start + places[f.name]) for f in fields}


class Chunks:
    """The anonymous file as processes see it, mapped chunk by chunk as it is needed; it may be handed to a process.

    Args:
        descriptor: the file.
        size: of a chunk, in bytes.
    """

    def __init__(self, descriptor: int, size: int):
        self.descriptor, self.size = descriptor, size
        self._mapped: dict[int, mmap.mmap] = {}

    def __getstate__(self) -> Any:
        return reduction.DupFd(self.descriptor), self.size

    def __setstate__(self, state: Any) -> None:
        descriptor, self.size = state
        self.descriptor, self._mapped = descriptor.detach(), {}

    def at(self, place: int) -> tuple[mmap.mmap, int]:
        """The mapped chunk in which a piece lies, and where in it."""
        number, offset = divmod(place, self.size)
        chunk = self._mapped.get(number)
        if chunk is None:
            with limits_named("memory for results to be kept"):
                chunk = self._mapped[number] = mmap.mmap(self.descriptor, self.size, offset=number * self.size)
        return chunk, offset

    def close(self) -> None:
        """Let go of it; arrays that somebody still holds keep their chunk."""
        self._mapped.clear()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        if getattr(self, "descriptor", -1) >= 0:
            os.close(self.descriptor)


class Arena:
    """Hands out pieces.

    Args:
        fields: the arrays of a piece.
        most_rows: of the largest piece.
    """

    def __init__(self, fields: Sequence[Field], most_rows: int):
        self._fields = tuple(fields)
        _, largest = layout(self._fields, most_rows)
        size = max(LEAST_CHUNK, PIECES * largest)
        size = -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self.chunks = Chunks(anonymous_file(size), size)
        self._length, self._next = size, 0
        self._free: dict[int, deque[int]] = defaultdict(deque)  # rows → places

    def take(self, rows: int) -> tuple[int, dict[str, np.ndarray]]:
        """A piece: its place in the file and its arrays [rows, …], of undefined contents.

        Raises:
            SharedMemoryError: the system has no more.
        """
        free = self._free[rows]
        place = free.popleft() if free else self._new(rows)
        memory, start = self.chunks.at(place)
        _, length = layout(self._fields, rows)
        # an object that knows when the last array over it is gone: NumPy keeps it as the base of each
        piece = (ctypes.c_char * length).from_buffer(memory, start)
        piece.place = place  # pyright: ignore[reportAttributeAccessIssue]
        weakref.finalize(piece, free.append, place).atexit = False
        return place, arrays_over(piece, 0, self._fields, rows)

    def place_of(self, arrays: Mapping[str, np.ndarray]) -> int | None:
        """The place of arrays that `take` gave; None for any others."""
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
                raise SharedMemoryError(f"no memory for more results to be kept: {error}") from error
        self._next = place + length
        return place

    def close(self) -> None:
        """Let go of it; arrays that somebody still holds stay as they are."""
        self.chunks.close()
