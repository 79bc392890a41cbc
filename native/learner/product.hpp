// Products of matrices in tiles of accumulators, and the functions of layers over registers of floats.
#pragma once

#include <cstddef>
#include <cstring>

#include "lanes/vec.hpp"

namespace headrace::learner {
namespace {

using lanes::Vec;

constexpr int kPad = 16;  // columns of matrices are padded to as many, with zeros

constexpr int padded(int n) { return (n + kPad - 1) / kPad * kPad; }

// floats from row to row: an odd number of cache lines, so that rows do not meet in the same places of the cache
constexpr int distance(int n) { return (padded(n) / kPad | 1) * kPad; }

template <class V>
inline V load(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class V>
inline void store(float* p, V v) { std::memcpy(p, &v, sizeof v); }

// rows of a tile, and registers of a row: as many accumulators as the processor has registers for
template <class V>
constexpr int kTileRows = V::width == 16 ? 8 : 4;
constexpr int kTileColumns = 2;

// a matrix by the distances of its rows and of its columns
struct View {
  const float* data;
  std::ptrdiff_t row, column;
};

// C[m, n] = finish(m, n, start(m, n) + Σₖ A[m, k] B[k, n]) for a tile at (m, n); sums in the order of k
template <class V, int rows, int columns, class Start, class Finish>
inline void tile(int m, int n, int inner, View A, const float* B, std::ptrdiff_t ldb, Start start, Finish finish) {
  V sum[rows][columns];
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) sum[r][c] = start(m + r, n + c * V::width);
  const float *a = A.data + m * A.row, *b = B + n;
  for (int k = 0; k < inner; ++k, a += A.column, b += ldb) {
    V right[columns];
    for (int c = 0; c < columns; ++c) right[c] = load<V>(b + c * V::width);
    for (int r = 0; r < rows; ++r) {
      const V left(a[r * A.row]);
      for (int c = 0; c < columns; ++c) sum[r][c] = fma(left, right[c], sum[r][c]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) finish(m + r, n + c * V::width, sum[r][c]);
}

// for all of [rows, columns], where columns are a multiple of kPad; rows are rounded up to whole tiles
template <class V, class Start, class Finish>
inline void product(int rows, int columns, int inner, View A, const float* B, std::ptrdiff_t ldb, Start start, Finish finish) {
  constexpr int kRows = kTileRows<V>, kWide = kTileColumns * V::width;
  int n = 0;
  for (; n + kWide <= columns; n += kWide)
    for (int m = 0; m < rows; m += kRows) tile<V, kRows, kTileColumns>(m, n, inner, A, B, ldb, start, finish);
  for (; n < columns; n += V::width)
    for (int m = 0; m < rows; m += kRows) tile<V, kRows, 1>(m, n, inner, A, B, ldb, start, finish);
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
