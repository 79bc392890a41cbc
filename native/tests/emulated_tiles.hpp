// The instructions of matrix units (AMX) in plain C++, for tests on processors without them: included before the code
// that uses them. Sums are rounded as Intel's manual says (TDPBF16PS): of even and of odd numbers, in the order of k,
// which are then added to each other, and to the sum so far. What a processor would refuse ends the process.
#pragma once

#include <immintrin.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "check.hpp"

namespace headrace::emulated {
namespace {

struct Configuration {
  std::uint8_t palette, start, none[14];
  std::uint16_t bytes[16];
  std::uint8_t rows[16];
};

struct Tile {
  int rows = 0, bytes = 0;
  alignas(64) std::uint32_t words[16][16] = {};

  int columns() const { return bytes / 4; }
};

inline Tile* tiles() {
  static thread_local Tile all[8];
  return all;
}

inline Tile& configured(int number) {
  Tile& tile = tiles()[number];
  CHECK(tile.rows > 0);
  return tile;
}

inline void release() {
  for (int i = 0; i < 8; ++i) tiles()[i] = Tile{};
}

inline void configure(const void* memory) {
  Configuration given;
  std::memcpy(&given, memory, sizeof given);
  CHECK(given.palette == 1 && given.start == 0);
  for (const std::uint8_t each : given.none) CHECK(each == 0);
  release();
  for (int i = 0; i < 16; ++i) {
    CHECK(given.rows[i] <= 16 && given.bytes[i] <= 64 && (given.rows[i] == 0) == (given.bytes[i] == 0));
    CHECK(i < 8 || given.rows[i] == 0);
    if (i < 8) tiles()[i].rows = given.rows[i], tiles()[i].bytes = given.bytes[i];
  }
}

inline void zero(int number) { std::memset(configured(number).words, 0, sizeof(Tile::words)); }

inline void read(int number, const void* from, std::ptrdiff_t stride) {
  zero(number);
  Tile& tile = configured(number);
  for (int r = 0; r < tile.rows; ++r)
    std::memcpy(tile.words[r], static_cast<const char*>(from) + r * stride, static_cast<std::size_t>(tile.bytes));
}

inline void write(int number, void* to, std::ptrdiff_t stride) {
  const Tile& tile = configured(number);
  for (int r = 0; r < tile.rows; ++r)
    std::memcpy(static_cast<char*>(to) + r * stride, tile.words[r], static_cast<std::size_t>(tile.bytes));
}

inline float number(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// numbers below the normal ones are 0
inline float flushed(float x) { return std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x; }

inline void multiply(int to, int left, int right) {
  Tile& c = configured(to);
  const Tile &a = configured(left), &b = configured(right);
  CHECK(to != left && to != right && left != right);
  CHECK(c.rows == a.rows && c.bytes == b.bytes && a.bytes == 4 * b.rows && c.bytes % 4 == 0);
  for (int m = 0; m < c.rows; ++m) {
    float even[16] = {}, odd[16] = {};
    for (int k = 0; k < a.columns(); ++k) {
      const float lower = flushed(number(a.words[m][k] << 16)), upper = flushed(number(a.words[m][k] & 0xffff0000));
      for (int n = 0; n < c.columns(); ++n) {
        even[n] = flushed(std::fma(lower, flushed(number(b.words[k][n] << 16)), even[n]));
        odd[n] = flushed(std::fma(upper, flushed(number(b.words[k][n] & 0xffff0000)), odd[n]));
      }
    }
    for (int n = 0; n < c.columns(); ++n) {
      const float sum = flushed(flushed(number(c.words[m][n])) + flushed(even[n] + odd[n]));
      std::memcpy(&c.words[m][n], &sum, sizeof sum);
    }
  }
}

}  // namespace
}  // namespace headrace::emulated

// a name of its own, so that it can be linked after the real one's library
#define makers_bfloat16_tiles makers_emulated_tiles
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(from) headrace::emulated::configure(from)
#define _tile_release() headrace::emulated::release()
#define _tile_zero(tile) headrace::emulated::zero(tile)
#define _tile_loadd(tile, from, stride) headrace::emulated::read(tile, from, stride)
#define _tile_stored(tile, to, stride) headrace::emulated::write(tile, to, stride)
#define _tile_dpbf16ps(to, left, right) headrace::emulated::multiply(to, left, right)
