"""Memory accesses that the threads of a warp make together on a GPU, and each by itself elsewhere, with equal results.

Compilers use the native code, debug mode the functions' Python bodies. A branch may have left only some of a warp's
threads active.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

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


@wp.func_native(ATOMIC_MIN)
def warp_atomic_min(array: wp.array[wp.int32], at: int, value: int):
    """Lowers ``array[at]`` to ``value`` if that is less, with one atomic for all threads of a warp that do so."""
    wp.atomic_min(array, at, value)
