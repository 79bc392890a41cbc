"""Memory accesses that the threads of a warp make together on a GPU, and each by itself elsewhere, with equal results.

Compilers use the native code, debug mode the functions' Python bodies. A branch may have left only some of a warp's
threads active.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
from typing import Any

import warp as wp

from headrace.pool.executors.kernels.cpp import cpp


@wp.func_native(cpp(__file__, "warp_atomic_min"))
def warp_atomic_min(array: wp.array[wp.int32], at: int, value: int):
    """Lowers ``array[at]`` to ``value`` if that is less, with one atomic for all threads of a warp that do so."""
    wp.atomic_min(array, at, value)


@functools.cache
def coalesced_store(count: int) -> Any:
    """Returns a Warp function that stores a vector of ``count`` numbers in ``array[i, j, k]`` and the next elements.

    The array's last axis must be contiguous. A GPU writes whole sectors of 32 bytes, so the threads of a warp exchange
    their numbers through shared memory, and neighbouring threads write neighbouring elements.
    """

    def put(array, i, j, k, numbers):
        for n in range(count):
            array[i, j, k + n] = numbers[n]

    put.__name__ = put.__qualname__ = f"coalesced_store_{count}"
    numbers_type = wp.types.vector(count, wp.float32)
    put.__annotations__ = {"array": wp.array3d[wp.float32], "i": int, "j": int, "k": int, "numbers": numbers_type}
    return wp.func_native(cpp(__file__, "coalesced_store"))(put)
