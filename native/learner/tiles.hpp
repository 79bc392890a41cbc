// Products of bfloat16 in the processor's matrix units (AMX): sixteen rows of thirty-two numbers meet thirty-two rows of
// sixteen in one instruction, whose sums are float32.
#pragma once

#include "convolution.hpp"
#include "numbers.hpp"
#include "words.hpp"

namespace headrace::learner {
namespace {

// the compiler does not see what tiles read and write
inline void fence() { __asm__ volatile("" ::: "memory"); }

// The units' shape as long as this lives: tiles 0 to 3 are sums, 4 and 5 have their rows and some words in each, which
// meet as many rows of 6 and 7.
class TileShape {
 public:
  TileShape(int rows, int words) {
    struct alignas(64) {
      std::uint8_t palette = 1, start = 0, none[14] = {};
      std::uint16_t bytes[16] = {};
      std::uint8_t rows[16] = {};
    } shape;
    for (int i = 0; i < 8; ++i) {
      shape.bytes[i] = static_cast<std::uint16_t>(i == 4 || i == 5 ? words * 4 : 64);
      shape.rows[i] = static_cast<std::uint8_t>(i < 6 ? rows : words);
    }
    __asm__ volatile("" : : "r"(&shape) : "memory");
    _tile_loadconfig(&shape);
    fence();
  }
  TileShape(const TileShape&) = delete;
  ~TileShape() { _tile_release(); }
};

// four tiles of sums: how each begins, with so many numbers from row to row, and where its rows of kTile go
struct Sums {
  const float* from[2][2];
  std::ptrdiff_t ld;
  float* to[2][2];
};

// sums + Σ A[left(k)] B[right(k)] over steps with {left, right, …} = step(k), of two tiles of rows, or of one, and two of
// columns, or of one
template <int rows, int columns, class Step>
inline void multiply(const Sums& sums, int steps, Step step, const std::uint32_t* const (&A)[2], std::ptrdiff_t lda,
                     const std::uint32_t* const (&B)[2], std::ptrdiff_t ldb) {
  fence();
  _tile_loadd(0, sums.from[0][0], sums.ld * 4);
  if constexpr (columns == 2) _tile_loadd(1, sums.from[0][1], sums.ld * 4);
  if constexpr (rows == 2) _tile_loadd(2, sums.from[1][0], sums.ld * 4);
  if constexpr (rows == 2 && columns == 2) _tile_loadd(3, sums.from[1][1], sums.ld * 4);
  for (int k = 0; k < steps; ++k) {
    const Run at = step(k);
    _tile_loadd(4, A[0] + at.left, lda * 4);
    if constexpr (rows == 2) _tile_loadd(5, A[1] + at.left, lda * 4);
    _tile_loadd(6, B[0] + at.right, ldb * 4);
    if constexpr (columns == 2) _tile_loadd(7, B[1] + at.right, ldb * 4);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (columns == 2) _tile_dpbf16ps(1, 4, 7);
    if constexpr (rows == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (rows == 2 && columns == 2) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums.to[0][0], 64);
  if constexpr (columns == 2) _tile_stored(1, sums.to[0][1], 64);
  if constexpr (rows == 2) _tile_stored(2, sums.to[1][0], 64);
  if constexpr (rows == 2 && columns == 2) _tile_stored(3, sums.to[1][1], 64);
  fence();
}

// Words as those of `Halves`, whose products matrix units make. Samples of a group are the rows of tiles: at each place
// they are equally far apart. In gradients of weights, what is summed are samples at two places next to each other.
struct Grids : Bf16Words {
  static constexpr int kGroup = kTile, kSamples = kTile;
  static constexpr bool kInTiles = true;
  using Shape = TileShape;

  // finish(place.to + s · to + n, start[n] + Σ A[place.from + s · from + left + i] B[right + i · columns + n]) of samples
  // s at places, over runs and their i; the shape is that of samples and of a run's length
  template <class Finish>
  static void product(const Place* places, std::size_t count, int samples, std::ptrdiff_t from, std::ptrdiff_t to,
                      int columns, const Word* A, const std::vector<Run>& runs, const Word* B, const float* start,
                      Finish finish) {
    int n = 0;
    const auto all = [&]<int across>() {
      for (std::size_t m = 0; m < count; m += 2) {
        const Place both[2] = {places[m], places[std::min(m + 1, count - 1)]};  // the last one twice
        alignas(64) float sums[2][2][kTile][kTile];
        const float *begin = start + n, *next = start + n + (across - 1) * kTile;
        multiply<2, across>(
            {{{begin, next}, {begin, next}}, 0, {{*sums[0][0], *sums[0][1]}, {*sums[1][0], *sums[1][1]}}},
            static_cast<int>(runs.size()), [&](int k) { return runs[static_cast<std::size_t>(k)]; },
            {A + both[0].from, A + both[1].from}, from, {B + n, B + n + (across - 1) * kTile}, columns);
        for (int i = 0; i < 2; ++i)
          for (int s = 0; s < samples; ++s)
            for (int c = 0; c < across; ++c) finish(both[i].to + s * to + n + c * kTile, load<Wide>(sums[i][c][s]));
      }
    };
    for (; n + kTall <= columns; n += kTall) all.template operator()<2>();
    for (; n < columns; n += kTile) all.template operator()<1>();
  }

  // Writes kTile outputs of samples at a place d, and at one that is so many words further, as rows of words of both
  // places of all samples; returns their sums. No words further: zeros instead of a second place.
  static Wide turn(const Word* d, std::ptrdiff_t distance, int samples, std::ptrdiff_t further, Word* to) {
    alignas(64) Word words[kTile][kTile] = {};
    Wide sum(0);
    for (int s = 0; s < samples; ++s, d += distance) {
      const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(d)),
                    second = _mm256_maskz_loadu_epi32(further != 0 ? 0xff : 0, d + further);
      const __m512i both =
          _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
      _mm512_store_si512(words[s], both);
      sum = _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(both),
                             reinterpret_cast<__m512bh>(_mm512_set1_epi32(ones())));
    }
    transpose(*words, kTile, kTile, kTile, to, kTile);
    return sum;
  }

  // Adds to C, tiles [outputs, kTile] of which each has its numbers of a window in x from place.from on, and in C from
  // place.to on, the products of d, tiles as `turn` writes them, and zipped pictures x, so far apart.
  static void add_products(const std::vector<Place>& windows, const Run* steps, int count, int samples, int outputs,
                           const Word* d, const Word* x, std::ptrdiff_t distance, float* C) {
    const TileShape shape(kTile, samples);
    for (std::size_t k = 0; k < windows.size(); k += 2) {
      const Place first = windows[k], second = windows[std::min(k + 1, windows.size() - 1)];  // the last one twice
      for (int o = 0; o < outputs; o += kTall) {
        const std::ptrdiff_t to = o * kTile, next = o + kTile < outputs ? to + kTile * kTile : to;
        float* sums[2][2] = {{C + first.to + to, C + second.to + to}, {C + first.to + next, C + second.to + next}};
        const auto add = [&]<int rows>() {
          multiply<rows, 2>(
              {{{sums[0][0], sums[0][1]}, {sums[1][0], sums[1][1]}},
               kTile,
               {{sums[0][0], sums[0][1]}, {sums[1][0], sums[1][1]}}},
              count, [&](int i) { return steps[i]; }, {d + to, d + next}, kTile, {x + first.from, x + second.from},
              distance);
        };
        if (next != to) add.template operator()<2>();
        else add.template operator()<1>();
      }
    }
  }
};

// for all of [rows, columns], rounded up to whole pairs of tiles; inner: numbers that are summed
struct Tiles {
  using Numbers = Grids;  // of convolutions
  static constexpr bool kTransposes = false;  // a left matrix's columns follow each other

  // finish(m, n, Σₖ A[m, k] B[k, n]); sums in the order of k
  template <class Finish>
  static void product(int rows, int columns, int inner, View<std::uint32_t> A, const std::uint32_t* B,
                      std::ptrdiff_t ldb, Finish finish) {
    alignas(64) static constexpr float kNone[kTile] = {};
    alignas(64) float sums[2][2][kTile][kTile];
    const TileShape shape(kTile, kTile);
    for (int n = 0; n < columns; n += kTall)
      for (int m = 0; m < rows; m += kTall) {
        const std::uint32_t *a = A.data + m * A.row, *b = B + n;
        multiply<2, 2>(
            {{{kNone, kNone}, {kNone, kNone}}, 0, {{*sums[0][0], *sums[0][1]}, {*sums[1][0], *sums[1][1]}}},
            whole(inner) / kTall, [&](int k) { return Run{k * kTile, k * kTile * ldb, kTile}; }, {a, a + kTile * A.row},
            A.row, {b, b + kTile}, ldb);
        for (int i = 0; i < kTall; ++i)
          for (int c = 0; c < 2; ++c) finish(m + i, n + c * kTile, load<Wide>(sums[i / kTile][c][i % kTile]));
      }
  }
};

}  // namespace
}  // namespace headrace::learner
