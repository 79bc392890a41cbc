"""Memory accesses that the threads of a warp make together on a GPU, and each by itself elsewhere, with equal results.

Compilers use the native code, debug mode the functions' Python bodies. A branch may have left only some of a warp's
threads active.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
from typing import Any

import warp as wp

ATOMIC_MIN = """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    int* place = &wp::index(array, at);
    unsigned same = __match_any_sync(__activemask(), (unsigned long long)place);
    int lowest = __reduce_min_sync(same, value);
    if ((threadIdx.x & 31u) == __ffs(same) - 1u) {
        atomicMin(place, lowest);
    }
#else
    wp::atomic_min(array, at, value);
#endif
"""
STORE = """
#if defined(__CUDA_ARCH__)
    __shared__ float* places[WP_TILE_BLOCK_DIM];
    __shared__ float waiting[WP_TILE_BLOCK_DIM * COUNT];
    unsigned active = __activemask(), own = threadIdx.x & 31u, warp = threadIdx.x - own;
    places[threadIdx.x] = &wp::index(array, i, j, k);
    for (int n = 0; n < COUNT; ++n) {
        waiting[threadIdx.x * COUNT + n] = numbers[n];
    }
    __syncwarp(active);
    unsigned first = __ffs(active) - 1u, end = 32u - __clz(active), threads = __popc(active);
    for (unsigned n = first * COUNT + __popc(active & ((1u << own) - 1u)); n < end * COUNT; n += threads) {
        if (active >> n / COUNT & 1u) {
            places[warp + n / COUNT][n % COUNT] = waiting[warp * COUNT + n];
        }
    }
    __syncwarp(active);  // before the next call
#else
    for (int n = 0; n < COUNT; ++n) {
        wp::index(array, i, j, k + n) = numbers[n];
    }
#endif
"""


@wp.func_native(ATOMIC_MIN)
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
    return wp.func_native(STORE.replace("COUNT", str(count)))(put)
