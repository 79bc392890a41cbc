// The view in plain memory, as a row of it is contiguous: bodies of functions in classic.py.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::craftax {

inline void show_blocks(wp::array_t<float> obs, int row, wp::array_t<unsigned char> cells, int env, int top, int left) {
  float* place = &wp::index(obs, row, 0);
#if defined(__CUDA_ARCH__)
  for (int i = 0; i < obs.shape[1]; ++i) place[i] = 0.0f;
#else
  __builtin_memset(place, 0, obs.shape[1] * sizeof(float));
#endif
  for (int i = top; i < top + 7; ++i) {
    const unsigned char* line = &wp::index(cells, env, i & 63, 0);
    for (int j = left; j < left + 9; ++j, place += 21) {
      place[((i | j) & ~63) == 0 ? line[j & 63] & 31 : 1] = 1.0f;
    }
  }
}

template <class State>
inline void fetch_next(const State& state, int env) {
#if !defined(__CUDA_ARCH__)
  const int next = env + 1 < (int)state.player.shape[0] ? env + 1 : 0;  // a guess, where only some make a step
  const unsigned char* cells = &wp::index(state.cells, next, 0, 0);
  const auto* places = &wp::index(state.places, next, 0);
  for (int mob = 0; mob < 8; ++mob) __builtin_prefetch(cells + (places[mob].c[0] & 63) * 64);
  const int row = wp::index(state.player, next).c[0];
  for (int i = -3; i <= 3; ++i) __builtin_prefetch(cells + ((row + i) & 63) * 64);
#endif
}

}  // namespace headrace::craftax
