"""The memory of new batches: few allocations, at addresses that are known without asking NumPy.

A caller that keeps results needs a new batch in every step, so making one must cost little more than its memory. Asking
an array for its address takes as long as making ten arrays; a ctypes object tells its own at once.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from headrace.pool.spec import Field

ALIGNMENT = 64  # bytes: a cache line, and the alignment that JAX needs to use memory without a copy
BLOCK = 1024  # bytes that arrays share: an array that is kept holds no more than these beside itself
ZEROED = 1 << 14  # bytes from which on the system's zeros are cheaper than a loop that writes them


class Layout:
    """Makes the arrays [rows, …] of a batch: of small ones several in one allocation, and each large one alone.

    Args:
        fields: what each array holds, in the order in which they are made; no objects.
        rows: number of rows.
    """

    def __init__(self, fields: Iterable[Field], rows: int):
        blocks: list[tuple[int, list[tuple[str, tuple[int, ...], np.dtype, int]]]] = []  # end; place of each array
        for f in fields:
            shape = (rows, *f.shape)
            size = math.prod(shape) * f.dtype.itemsize
            end, members = blocks[-1] if blocks else (0, [])
            place = -(-end // ALIGNMENT) * ALIGNMENT
            if blocks and place + size <= BLOCK:
                blocks[-1] = (place + size, [*members, (f.name, shape, f.dtype, place)])
            else:
                blocks.append((size, [(f.name, shape, f.dtype, 0)]))
        self._blocks = [(_allocator(size + ALIGNMENT), members) for size, members in blocks]

    def make(self) -> tuple[dict[str, np.ndarray], list[int]]:
        """Returns new arrays of zeros by name, and their addresses in the same order.

        Each begins at a multiple of `ALIGNMENT` bytes and is the base of its views.
        """
        arrays, addresses, new = {}, [], np.ndarray
        for allocate, members in self._blocks:
            memory = allocate()
            address = ctypes.addressof(memory)
            start = -address % ALIGNMENT
            for name, shape, dtype, place in members:
                place += start
                # the base of a view is the innermost array: over a ctypes object that is the array made here
                arrays[name] = new(shape, dtype, memory, place)
                addresses.append(address + place)
        return arrays, addresses


def _allocator(size: int) -> Callable[[], Any]:
    """Returns a function that returns so many bytes of zeros as a ctypes object."""
    kind: Any = ctypes.c_char * size
    return kind if size < ZEROED else lambda: kind.from_buffer(np.zeros(size, np.uint8))
