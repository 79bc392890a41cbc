// Memory accesses that the threads of a warp make together: the bodies of functions in warps.py.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::kernels {

inline void warp_atomic_min(wp::array_t<int> array, int at, int value) {
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
}

template <unsigned length>
inline void coalesced_store(wp::array_t<float> array, int i, int j, int k, wp::vec_t<length, float> numbers) {
  constexpr int COUNT = sizeof(numbers) / sizeof(float);
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
}

}  // namespace headrace::kernels
