// Generates a world, a row of the map at once, which compilers turn into vector instructions: the bodies of functions
// in world.py. Their Python bodies have the same results.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::craftax {

enum Block { GRASS = 2, WATER, STONE, TREE, PATH = 7, COAL, IRON, DIAMOND, SAND = 13, LAVA };

inline void stamp(wp::array_t<wp::vec_t<2, float>> gradients, wp::array_t<unsigned char> cells, int env, int rows,
                  int columns, float lift, bool clears, wp::vec_t<3, float> levels, int shift) {
#if defined(__CUDA_ARCH__)
  enum { KEPT = 1 };  // rows of values: all would be too much memory for each of a GPU's threads
#else
  enum { KEPT = 64 };
#endif
  const int across = 64 / columns;
  float right[64], blend[64], away[64], least[64], most[64], values[KEPT][64];
  float above[2][80], below[2][80];  // gradients of the noise's corners, each for all columns up to the next corner
  for (int y = 0; y < 64; ++y) {
    const float t = (y % columns) * (1.0f / columns);
    right[y] = t;
    blend[y] = t * t * t * (t * (t * 6.0f - 15.0f) + 10.0f);
    away[y] = y < 32 ? 32 - y : y - 32;
    least[y] = 1e9f;
    most[y] = -1e9f;
  }
  const auto evaluate = [&](int x) {
    const float down = (x % rows) * (1.0f / rows);
    const float t = down * down * down * (down * (down * 6.0f - 15.0f) + 10.0f);
    if (x % rows == 0) {
      const auto* corners = &wp::index(gradients, env, x / rows * (across + 1));
      for (int y = 0; y < 64 + columns; ++corners) {
        const auto upper = corners[0], lower = corners[across + 1];
        for (const int end = y + columns; y < end; ++y) {
          above[0][y] = upper.c[0], above[1][y] = upper.c[1];
          below[0][y] = lower.c[0], below[1][y] = lower.c[1];
        }
      }
    }
    const auto from_corner = [&](int y, float over) {
      const float at = (1.0f - t) * (above[0][y] * down) + t * (below[0][y] * (down - 1.0f));
      return at + ((1.0f - t) * above[1][y] + t * below[1][y]) * over;
    };
    for (int y = 0; y < 64; ++y) {
      values[x % KEPT][y] =
          (1.0f - blend[y]) * from_corner(y, right[y]) + blend[y] * from_corner(y + columns, right[y] - 1.0f);
    }
  };
  for (int x = 0; x < 64; ++x) {
    evaluate(x);
    for (int y = 0; y < 64; ++y) {
      const float value = values[x % KEPT][y];
      least[y] = value < least[y] ? value : least[y];
      most[y] = value > most[y] ? value : most[y];
    }
  }
  float low = least[0], high = most[0];
  for (int y = 1; y < 64; ++y) {
    low = least[y] < low ? least[y] : low;
    high = most[y] > high ? most[y] : high;
  }
  const float scale = 1.0f / (high - low), reach = clears ? 1.0f : 0.0f;
  const unsigned char mask = shift > 0 ? 255 : 0;
  for (int x = 0; x < 64; ++x) {
    if (KEPT == 1) evaluate(x);
    unsigned char* line = &wp::index(cells, env, x, 0);
    for (int y = 0; y < 64; ++y) {
      const float missing = reach - (away[x] + away[y]) * 0.2f;
      const float v = (values[x % KEPT][y] - low) * scale + lift - (missing > 0.0f ? missing : 0.0f);
      const int levels_below = (v > levels.c[0]) + (v > levels.c[1]) + (v > levels.c[2]);
      line[y] = (unsigned char)((line[y] & mask) | levels_below << shift);
    }
  }
}

inline void lay_blocks(wp::array_t<unsigned char> cells, int env, unsigned long long seed, int first) {
  enum { PATHS = 4, ROCK = 2, WOODS = 5 };  // the first bit of each noise: see the _SHIFTs
  unsigned long long paths[64];  // a bit for each cell of a row
  for (int x = 0; x < 64; ++x) {
    const unsigned char* line = &wp::index(cells, env, x, 0);
    unsigned long long row = 0;
    for (int y = 0; y < 64; ++y) row |= (unsigned long long)(line[y] >> PATHS & 1) << y;
    paths[x] = row;
  }
  for (int x = 0; x < 64; ++x) {
    unsigned char* line = &wp::index(cells, env, x, 0);
    float rolls[64];
    int across[64];
    for (int y = 0; y < 64; ++y) {
      unsigned long long z = seed + (unsigned long long)(first + 64 * x + y) * 0x9E3779B97F4A7C15ull;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
      rolls[y] = (int)((z ^ (z >> 31)) >> 40) * 5.9604644775390625e-8f;
      across[y] = (int)((paths[x] >> y | paths[y] >> x) & 1);
    }
    for (int y = 0; y < 64; ++y) {
      const int water = line[y] & 3, rock = line[y] >> ROCK & 3, woods = line[y] >> WOODS & 3;
      const float roll = rolls[y];
      int open = ((woods > 0) & (roll > 0.8f)) ? TREE : GRASS;
      open = water == 2 ? SAND : water >= 3 ? WATER : open;
      const float rare = 0.04f + 0.96f * (0.03f + 0.97f * 0.005f);
      int stone = ((rock >= 2) & (roll < rare)) ? DIAMOND : STONE;
      stone = roll < 0.04f ? COAL : roll < 0.04f + 0.96f * 0.03f ? IRON : stone;
      stone = (across[y] | ((rock == 3) & (water >= 1))) ? PATH : stone;
      line[y] = (unsigned char)(((rock == 3) & (woods == 2)) ? LAVA : rock == 0 ? open : stone);
    }
  }
}

}  // namespace headrace::craftax
