// A layer whose products are of bfloat16, in the processor's matrix units (AMX): sixteen rows of thirty-two numbers meet
// thirty-two rows of sixteen in one instruction, whose sums are float32.
//
// A word is two numbers of bfloat16, which are multiplied with two others and added up. The left matrix has words of two
// columns, the right one of two rows.
#pragma once

#include <immintrin.h>

#include "dense.hpp"

namespace headrace::learner {
namespace {

using Words = Line<std::uint32_t>;
using Wide = Vec<16, float>;

constexpr int kTile = 16;          // rows of a tile, and words of a row
constexpr int kTall = 2 * kTile;   // rows and columns of words' matrices are padded to as many numbers

constexpr int whole(int n) { return (n + kTall - 1) / kTall * kTall; }

// words from row to row, of n numbers in pairs: an odd number of cache lines
constexpr int word_distance(int n) { return (whole(n) / kTall | 1) * kTile; }

// words from row to row, of n words: an odd number of cache lines, and whole pairs of tiles
constexpr int pair_distance(int n) { return whole(n) + kTile; }

inline Words words(int rows, int distance) { return Words(static_cast<std::size_t>(rows) * static_cast<std::size_t>(distance)); }

inline __mmask16 first(int n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : n > 0 ? (1 << n) - 1 : 0); }

// words of two columns, of [rows, columns]; zeros up to whole tiles
inline void pair_columns(const float* x, std::ptrdiff_t ld, int rows, int columns, std::uint32_t* to, std::ptrdiff_t to_ld) {
  for (int r = 0; r < whole(rows); ++r)
    for (int c = 0; c < columns; c += kTall) {
      const __mmask16 low = first(columns - c), high = first(columns - c - kTile);
      const float* from = x + r * ld + c;
      const __m512 left = r < rows ? _mm512_maskz_loadu_ps(low, from) : _mm512_setzero_ps();
      const __m512 right = r < rows ? _mm512_maskz_loadu_ps(high, from + kTile) : _mm512_setzero_ps();
      const __m512bh rounded = _mm512_cvtne2ps_pbh(right, left);
      std::memcpy(to + r * to_ld + c / 2, &rounded, sizeof rounded);
    }
}

// words of two rows, of [rows, columns]; zeros up to whole tiles
inline void pair_rows(const float* x, std::ptrdiff_t ld, int rows, int columns, std::uint32_t* to, std::ptrdiff_t to_ld) {
  alignas(64) std::uint16_t places[32];
  for (int i = 0; i < 32; ++i) places[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * 16);
  const __m512i zip = _mm512_load_si512(places);
  for (int r = 0; r < whole(rows); r += 2)
    for (int c = 0; c < whole(columns); c += kTile) {
      const __mmask16 some = first(columns - c);
      const float* from = x + r * ld + c;
      const __m512 upper = r < rows ? _mm512_maskz_loadu_ps(some, from) : _mm512_setzero_ps();
      const __m512 lower = r + 1 < rows ? _mm512_maskz_loadu_ps(some, from + ld) : _mm512_setzero_ps();
      const __m512bh rounded = _mm512_cvtne2ps_pbh(lower, upper);
      __m512i both;
      std::memcpy(&both, &rounded, sizeof both);
      _mm512_storeu_si512(to + r / 2 * to_ld + c, _mm512_permutexvar_epi16(zip, both));
    }
}

// as of floats, of which these words have as many bits
inline void transpose(const std::uint32_t* from, std::ptrdiff_t ld, int rows, int columns, std::uint32_t* to, std::ptrdiff_t to_ld) {
  transpose<Wide>(reinterpret_cast<const float*>(from), ld, rows, columns, reinterpret_cast<float*>(to), to_ld);
}

// finish(m, n, Σₖ A[m, k] B[k, n]) for two tiles of rows and two of columns; sums in the order of k
template <class Finish>
inline void tiles(int m, int n, int steps, const std::uint32_t* A, std::ptrdiff_t lda, const std::uint32_t* B, std::ptrdiff_t ldb, Finish finish) {
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
template <class Finish>
inline void product(int rows, int columns, int inner, const std::uint32_t* A, std::ptrdiff_t lda, const std::uint32_t* B, std::ptrdiff_t ldb, Finish finish) {
  struct alignas(64) { std::uint8_t palette = 1, start = 0, none[14] = {}; std::uint16_t bytes[16] = {}; std::uint8_t rows[16] = {}; } shape;
  for (int i = 0; i < 8; ++i) shape.bytes[i] = 64, shape.rows[i] = kTile;
  __asm__ volatile("" : : "r"(&shape) : "memory");
  _tile_loadconfig(&shape);
  for (int n = 0; n < columns; n += kTall)
    for (int m = 0; m < rows; m += kTall) tiles(m, n, whole(inner) / kTall, A, lda, B, ldb, finish);
  _tile_release();
}

// As `Dense`; narrow layers, and those of several parts, stay in float32.
class Tiled : public Dense<Wide> {
  static constexpr int kNarrow = 64;

 public:
  static constexpr int kRows = 256;

  struct Scratch {
    std::vector<std::uint32_t> left, right, pairs;

    static std::uint32_t* of(std::vector<std::uint32_t>& words, int rows, int distance) {
      const auto n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(distance);
      if (words.size() < n) words.resize(n);
      return words.data();
    }
  };

  Tiled(const Layer& layer, const std::shared_ptr<Scratch>& scratch)
      : Dense(layer, nullptr), scratch_(scratch), part_(layer.parts.front()), wide_(std::min(inputs, outputs) > kNarrow && layer.parts.size() == 1),
        tall_(part_.output_first ? outputs : inputs), across_(part_.output_first ? inputs : outputs),
        pairs_(words(wide_ ? whole(inputs) / 2 : 0, pair_distance(outputs))), transposed_(words(wide_ ? whole(outputs) / 2 : 0, pair_distance(inputs))) {}

  void pack() {
    if (!wide_) return Dense::pack();
    pack_bias();
    Words& straight = part_.output_first ? transposed_ : pairs_;
    Words& turned = part_.output_first ? pairs_ : transposed_;
    pair_rows(part_.weight, across_, tall_, across_, straight.get(), pair_distance(across_));
    std::uint32_t* columns = Scratch::of(scratch_->left, whole(tall_), word_distance(across_));
    pair_columns(part_.weight, across_, tall_, across_, columns, word_distance(across_));
    transpose(columns, word_distance(across_), whole(tall_), whole(across_) / 2, turned.get(), pair_distance(tall_));
  }

  void write_gradients() const { wide_ ? write_bias_gradients() : Dense::write_gradients(); }

  template <class Activate>
  void forward(const float* x, int rows, float* y, Activate activate) const {
    if (!wide_) return Dense::forward(x, rows, y, activate);
    const int ld = word_distance(inputs);
    std::uint32_t* left = Scratch::of(scratch_->left, whole(rows), ld);
    pair_columns(x, distance(inputs), rows, inputs, left, ld);
    product(rows, outputs, inputs, left, ld, pairs_.get(), pair_distance(outputs), [&](int m, int n, Wide sum) {
      if (n < padded(outputs)) store(y + m * stride() + n, activate(sum + load<Wide>(bias_.get() + n)));
    });
  }

  void add_gradients(const float* x, int rows, const float* d, bool is_first) {
    if (!wide_) return Dense::add_gradients(x, rows, d, is_first);
    add_bias_gradients(rows, d, is_first);
    const float *tall = part_.output_first ? d : x, *across = part_.output_first ? x : d;
    const int ld = pair_distance(tall_), left_ld = word_distance(rows), right_ld = pair_distance(across_);
    std::uint32_t *pairs = Scratch::of(scratch_->pairs, whole(rows) / 2, ld), *left = Scratch::of(scratch_->left, whole(tall_), left_ld);
    std::uint32_t* right = Scratch::of(scratch_->right, whole(rows) / 2, right_ld);
    pair_rows(tall, distance(tall_), rows, tall_, pairs, ld);
    transpose(pairs, ld, whole(rows) / 2, whole(tall_), left, left_ld);
    pair_rows(across, distance(across_), rows, across_, right, right_ld);
    product(tall_, across_, rows, left, left_ld, right, right_ld, [&](int m, int n, Wide sum) {
      if (m >= tall_) return;
      float* place = part_.weight_gradient + static_cast<std::ptrdiff_t>(m) * across_ + n;
      const __mmask16 some = first(across_ - n);
      _mm512_mask_storeu_ps(place, some, is_first ? sum.v : _mm512_add_ps(sum.v, _mm512_maskz_loadu_ps(some, place)));
    });
  }

  template <class Pass>
  void input_gradients(const float* d, int rows, const float* x, float* dx, int from, Pass pass) const {
    if (!wide_) return Dense::input_gradients(d, rows, x, dx, from, pass);
    const int ld = word_distance(outputs), to = distance(inputs);
    std::uint32_t* left = Scratch::of(scratch_->left, whole(rows), ld);
    pair_columns(d, stride(), rows, outputs, left, ld);
    product(rows, inputs, outputs, left, ld, transposed_.get(), pair_distance(inputs), [&](int m, int n, Wide sum) {
      if (n < padded(inputs)) store(dx + m * to + n, pass(sum, load<Wide>(x + m * to + n)));
    });
  }

 private:
  std::shared_ptr<Scratch> scratch_;
  Part part_;
  bool wide_;
  int tall_, across_;         // rows and columns of the weights in the caller's memory
  Words pairs_, transposed_;  // [inputs, outputs] in words of two inputs; [outputs, inputs] in words of two outputs
};

}  // namespace
}  // namespace headrace::learner
