// A row of a screen, eight cells at once: the body of a function in common.py, whose Python body has the same results.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::minatar {

inline void show_row(wp::array_t<unsigned char> screen, int channel, int y, int bits) {
  unsigned char* cells = &wp::index(screen, channel, y, 0);
#if defined(__CUDA_ARCH__)
  for (int x = 0; x < 10; ++x) cells[x] = bits >> x & 1;
#else
  // each byte of a word keeps one of eight bits, as 0 or 1
  typedef unsigned long long Word;
  const Word ones = 0x0101010101010101, kept = (bits & 255) * ones & 0x8040201008040201;
  const Word eight = (kept + 127 * ones) >> 7 & ones;
  const unsigned short two = (bits >> 8 & 1) | (bits & 512) >> 1;
  __builtin_memcpy(cells, &eight, 8);
  __builtin_memcpy(cells + 8, &two, 2);
#endif
}

}  // namespace headrace::minatar
