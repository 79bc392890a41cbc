// Symmetric matrices as triangles under a pattern: LᵀDL factors (mj_factorI), solutions, products.
#pragma once

#include "work.hpp"

namespace headrace::lanes {
namespace {

// the elements under the pattern
template <class V>
void copy_matrix(const Pattern& p, const V* from, V* to) {
  for (int k = 0; k < p.size; ++k)
    for (int r = 0; r < p.count[k]; ++r)
      for (int j = p.runs[k][r].begin; j < p.runs[k][r].end; ++j) to[at(k, j)] = from[at(k, j)];
}

// A = LᵀDL in place, from the last row to the first: L below the diagonal, and D⁻¹ beside
template <class V>
void factorize(const Pattern& p, V* A, V* inverse_diagonal) {
  for (int k = p.size - 1; k >= 0; --k) {
    V* row = A + at(k, 0);
    const V inverse = V(1) / row[k];
    inverse_diagonal[k] = inverse;
    for (int r = p.count[k] - 1; r >= 0; --r)
      for (int i = p.runs[k][r].end - 1; i >= p.runs[k][r].begin; --i) {
        if (i == k) continue;
        const V l = row[i] * inverse;
        V* other = A + at(i, 0);
        for (int s = 0; s < r; ++s)
          for (int j = p.runs[k][s].begin; j < p.runs[k][s].end; ++j) other[j] = fnma(l, row[j], other[j]);
        for (int j = p.runs[k][r].begin; j <= i; ++j) other[j] = fnma(l, row[j], other[j]);
        row[i] = l;
      }
  }
}

// calls visit(j) for the columns of row k before its diagonal
template <class Visit>
inline void each_below(const Pattern& p, int k, Visit visit) {
  for (int r = 0; r < p.count[k]; ++r) {
    const int end = p.runs[k][r].end - (r + 1 == p.count[k]);
    for (int j = p.runs[k][r].begin; j < end; ++j) visit(j);
  }
}

// x = A⁻¹ x
template <class V>
void solve(const Pattern& p, const V* factor, const V* inverse_diagonal, V* x) {
  for (int k = p.size - 1; k >= 0; --k) {
    const V* row = factor + at(k, 0);
    const V value = x[k];
    each_below(p, k, [&](int j) { x[j] = fnma(row[j], value, x[j]); });
    x[k] = value * inverse_diagonal[k];
  }
  for (int k = 0; k < p.size; ++k) {
    const V* row = factor + at(k, 0);
    V value = x[k];
    each_below(p, k, [&](int j) { value = fnma(row[j], x[j], value); });
    x[k] = value;
  }
}

// y = A x
template <class V>
void multiply(const Pattern& p, const V* A, const V* x, V* y) {
  for (int k = 0; k < p.size; ++k) {
    const V* row = A + at(k, 0);
    V sum = row[k] * x[k];
    const V value = x[k];
    each_below(p, k, [&](int j) {
      sum = fma(row[j], x[j], sum);
      y[j] = fma(row[j], value, y[j]);
    });
    y[k] = sum;
  }
}

}  // namespace
}  // namespace headrace::lanes
