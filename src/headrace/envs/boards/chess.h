// Planes and masks eight cells at once: bodies of functions in chess.py, whose Python bodies have the same results.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::chess {

inline void fill(wp::array_t<unsigned char> cells, int row, int agent, int plane, unsigned long long bits) {
  unsigned char* first = (unsigned char*)&wp::index(cells, row, agent, plane, 0);
  for (int y = 7; y >= 0; --y, first += 8) {
    unsigned long long line = (bits >> 8 * y & 255) * 0x0101010101010101ull & 0x8040201008040201ull;
    line = (line + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull;
    *(unsigned long long*)first = line;
  }
}

inline void clear(wp::array_t<bool> mask, int row, int agent) {
  unsigned char* first = (unsigned char*)&wp::index(mask, row, agent, 0);
#if defined(__CUDA_ARCH__)
  for (int i = 0; i < mask.shape[2]; ++i) first[i] = 0;
#else
  __builtin_memset(first, 0, mask.shape[2]);
#endif
}

}  // namespace headrace::chess
