// Searches places for mobs, 32 cells of a row at once, which compilers turn into vector instructions: the body of a
// function in mobs.py. Its Python body has the same results.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::craftax {

inline int find_place(wp::array_t<unsigned char> cells, int env, int row, int column, int block, int other, int nearest,
                      unsigned long long bits) {
  const int start = column < 13 ? 0 : column > 45 ? 32 : column - 13, top = row < 13 ? 0 : row - 13;
  const int end = row > 50 ? 64 : row + 14;
  const unsigned char least = nearest, one = block, two = other;
  unsigned char away[32], counts[27];
  for (int k = 0; k < 32; ++k) {
    away[k] = (unsigned char)(start + k < column ? column - start - k : start + k - column);
  }
  const auto fits = [&](int x, const unsigned char* line, int k) -> unsigned char {
    const unsigned char steps = away[k] + (unsigned char)(x < row ? row - x : x - row);
    return (steps > least) & (steps < 14) & ((line[k] == one) | (line[k] == two));
  };
  int all = 0;
  for (int x = top; x < end; ++x) {
    const unsigned char* line = &wp::index(cells, env, x, start);
    unsigned char count = 0;
    for (int k = 0; k < 32; ++k) count += fits(x, line, k);
    all += counts[x - top] = count;
  }
  if (all == 0) return -1;
  int x = top, skip = (int)((bits >> 32) * all >> 32), k = 0;
  for (; skip >= counts[x - top]; ++x) skip -= counts[x - top];
  const unsigned char* line = &wp::index(cells, env, x, start);
  while (!fits(x, line, k) || skip-- > 0) ++k;
  return x * 64 + start + k;
}

}  // namespace headrace::craftax
