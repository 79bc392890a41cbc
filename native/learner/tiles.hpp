// Products of bfloat16 in the processor's matrix units (AMX): sixteen rows of thirty-two numbers meet thirty-two rows of
// sixteen in one instruction, whose sums are float32.
#pragma once

#include "numbers.hpp"
#include "words.hpp"

namespace headrace::learner {
namespace {

// finish(m, n, Σₖ A[m, k] B[k, n]) for two tiles of rows and two of columns; sums in the order of k
template <class Finish>
inline void tiles(int m, int n, int steps, const std::uint32_t* A, std::ptrdiff_t lda, const std::uint32_t* B,
                  std::ptrdiff_t ldb, Finish finish) {
  alignas(64) float sums[2][2][kTile][kTile];
  const std::uint32_t *a = A + m * lda, *b = B + n;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int k = 0; k < steps; ++k, a += kTile, b += kTile * ldb) {
    _tile_loadd(4, a, lda * 4);
    _tile_loadd(5, a + kTile * lda, lda * 4);
    _tile_loadd(6, b, ldb * 4);
    _tile_loadd(7, b + kTile, ldb * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums[0][0], 64);
  _tile_stored(1, sums[0][1], 64);
  _tile_stored(2, sums[1][0], 64);
  _tile_stored(3, sums[1][1], 64);
  __asm__ volatile("" ::: "memory");  // the compiler does not see what these instructions read and write
  for (int half = 0; half < 2; ++half)
    for (int r = 0; r < kTile; ++r)
      for (int c = 0; c < 2; ++c) finish(m + half * kTile + r, n + c * kTile, load<Wide>(sums[half][c][r]));
}

// for all of [rows, columns], rounded up to whole pairs of tiles; inner: numbers that are summed
struct Tiles {
  using Numbers = Singles<Wide>;  // of convolutions
  static constexpr bool kTransposes = false;  // a left matrix's columns follow each other

  template <class Finish>
  static void product(int rows, int columns, int inner, View<std::uint32_t> A, const std::uint32_t* B,
                      std::ptrdiff_t ldb, Finish finish) {
    struct alignas(64) {
      std::uint8_t palette = 1, start = 0, none[14] = {};
      std::uint16_t bytes[16] = {};
      std::uint8_t rows[16] = {};
    } shape;
    for (int i = 0; i < 8; ++i) shape.bytes[i] = 64, shape.rows[i] = kTile;
    __asm__ volatile("" : : "r"(&shape) : "memory");
    _tile_loadconfig(&shape);
    for (int n = 0; n < columns; n += kTall)
      for (int m = 0; m < rows; m += kTall) tiles(m, n, whole(inner) / kTall, A.data, A.row, B, ldb, finish);
    _tile_release();
  }
};

}  // namespace
}  // namespace headrace::learner
