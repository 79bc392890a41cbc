// Products of matrices in tiles of accumulators, and the functions of layers over registers of floats.
#pragma once

#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

#include "lanes/vec.hpp"

namespace headrace::learner {
namespace {

using lanes::Vec;

constexpr int kPad = 16;  // columns of matrices are padded to as many, with zeros

constexpr int padded(int n) { return (n + kPad - 1) / kPad * kPad; }

// floats from row to row: an odd number of cache lines, so that rows do not meet in the same places of the cache
constexpr int distance(int n) { return (padded(n) / kPad | 1) * kPad; }

template <class V, class T>
inline V load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class V>
inline void store(float* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

// rows of a tile, and registers of a row: as many accumulators as the processor has registers for
template <class V>
constexpr int kTileRows = V::width == 16 ? 8 : 4;
constexpr int kTileColumns = 2;

// a matrix by the distances of its rows and of its columns
template <class T>
struct View {
  const T* data;
  std::ptrdiff_t row, column;
};

// C[m, n] = finish(m, n, start(m, n) + Σₖ A[m, k] B[k, n]) for a tile at (m, n); sums in the order of k. Factors are as
// sums, or words of several numbers.
template <class V, class Factor, int rows, int columns, class T, class Start, class Finish>
inline void tile(int m, int n, int inner, const View<T>& A, const T* B, std::ptrdiff_t ldb, const Start& start,
                 const Finish& finish) {
  V sum[rows][columns];
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) sum[r][c] = start(m + r, n + c * V::width);
  const T *a = A.data + m * A.row, *b = B + n;
  for (int k = 0; k < inner; ++k, a += A.column, b += ldb) {
    Factor right[columns];
    for (int c = 0; c < columns; ++c) right[c] = load<Factor>(b + c * V::width);
    for (int r = 0; r < rows; ++r) {
      const Factor left(a[r * A.row]);
      for (int c = 0; c < columns; ++c) sum[r][c] = fma(left, right[c], sum[r][c]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) finish(m + r, n + c * V::width, sum[r][c]);
}

// for all of [rows, columns], where columns are a multiple of kPad; rows are rounded up to whole tiles
template <class V, class Factor = V, class T, class Start, class Finish>
inline void product(int rows, int columns, int inner, const View<T>& A, const T* B, std::ptrdiff_t ldb,
                    const Start& start, const Finish& finish) {
  constexpr int kRows = kTileRows<V>, kWide = kTileColumns * V::width;
  int n = 0;
  for (; n + kWide <= columns; n += kWide)
    for (int m = 0; m < rows; m += kRows) tile<V, Factor, kRows, kTileColumns>(m, n, inner, A, B, ldb, start, finish);
  for (; n < columns; n += V::width)
    for (int m = 0; m < rows; m += kRows) tile<V, Factor, kRows, 1>(m, n, inner, A, B, ldb, start, finish);
}

// Numbers of two registers' halves in turn: of the lower halves, and of the upper ones.
inline std::pair<Vec<1, float>, Vec<1, float>> zip(Vec<1, float> a, Vec<1, float> b) { return {a, b}; }
#ifdef __AVX2__
inline std::pair<Vec<8, float>, Vec<8, float>> zip(Vec<8, float> a, Vec<8, float> b) {
  const __m256 even = _mm256_unpacklo_ps(a.v, b.v), odd = _mm256_unpackhi_ps(a.v, b.v);
  return {_mm256_permute2f128_ps(even, odd, 0x20), _mm256_permute2f128_ps(even, odd, 0x31)};
}
#endif
#ifdef __AVX512F__
inline std::pair<Vec<16, float>, Vec<16, float>> zip(Vec<16, float> a, Vec<16, float> b) {
  const __m512i lower = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0),
                upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
  return {_mm512_permutex2var_ps(a.v, lower, b.v), _mm512_permutex2var_ps(a.v, upper, b.v)};
}
#endif

// as `transpose`, of a square as wide as a register
template <class V>
inline void transpose_square(const float* from, std::ptrdiff_t ld, float* to, std::ptrdiff_t to_ld) {
  constexpr int kWidth = V::width;
  V rows[kWidth], zipped[kWidth];
  for (int r = 0; r < kWidth; ++r) rows[r] = load<V>(from + r * ld);
  for (int step = 1; step < kWidth;
       step *= 2) {  // each moves the highest bit of a number's row to the end of its column's
    for (int r = 0; r < kWidth / 2; ++r)
      std::tie(zipped[2 * r], zipped[2 * r + 1]) = zip(rows[r], rows[r + kWidth / 2]);
    std::swap(rows, zipped);
  }
  for (int r = 0; r < kWidth; ++r) store(to + r * to_ld, rows[r]);
}

// [columns, rows] of [rows, columns]; ld: numbers from row to row
template <class V>
inline void transpose(const float* from, std::ptrdiff_t ld, int rows, int columns, float* to, std::ptrdiff_t to_ld) {
  const int tall = rows / V::width * V::width, across = columns / V::width * V::width;
  for (int r = 0; r < tall; r += V::width)
    for (int c = 0; c < across; c += V::width) transpose_square<V>(from + r * ld + c, ld, to + c * to_ld + r, to_ld);
  for (int r = 0; r < rows; ++r)
    for (int c = r < tall ? across : 0; c < columns; ++c) to[c * to_ld + r] = from[r * ld + c];
}

// The hyperbolic tangent, within 3e-7: a ratio of polynomials, fitted for floats (Eigen's coefficients).
template <class V>
inline V tanh(V x) {
  x = min(max(x, V(-7.90531110763549805)), V(7.90531110763549805));
  const V z = x * x;
  V p = fma(z, V(-2.76076847742355e-16), V(2.00018790482477e-13));
  p = fma(z, p, V(-8.60467152213735e-11));
  p = fma(z, p, V(5.12229709037114e-08));
  p = fma(z, p, V(1.48572235717979e-05));
  p = fma(z, p, V(6.37261928875436e-04));
  p = fma(z, p, V(4.89352455891786e-03));
  V q = fma(z, V(1.19825839466702e-06), V(1.18534705686654e-04));
  q = fma(z, q, V(2.26843463243900e-03));
  q = fma(z, q, V(4.89352518554385e-03));
  return x * p / q;
}

}  // namespace
}  // namespace headrace::learner
