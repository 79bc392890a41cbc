// Symmetric matrices under a pattern: LᵀDL factors (mj_factorI), solutions, products.
#pragma once

#include <bit>

#include "work.hpp"

namespace headrace::lanes {
namespace {

// Calls visit(j, element) for the columns of row k before its diagonal.
template <class Value, class Visit>
inline void each_below(const Pattern& p, int k, Value* A, Visit visit) {
  Value* element = A + p.begin[k];
  for (int r = 0; r < p.count[k]; ++r) {
    const int end = p.runs[k][r].end - (r + 1 == p.count[k]);
    for (int j = p.runs[k][r].begin; j < end; ++j) visit(j, *element++);
  }
}

// A matrix whose pattern has all of its elements.
template <class V>
void copy_matrix(const Pattern& p, const V* from, const Pattern& wider, V* to) {
  if (&p == &wider) {
    for (int i = 0; i < p.elements; ++i) to[i] = from[i];
    return;
  }
  for (int i = 0; i < wider.elements; ++i) to[i] = V(0);
  for (int k = 0; k < p.size; ++k) {
    each_below(p, k, from, [&](int j, V value) { to[wider.at(k, j)] = value; });
    to[wider.at(k, k)] = from[p.at(k, k)];
  }
}

// target[j] -= Σ factor(k) A[k][j] over the rows of a chain from the last to the first, for n columns.
template <class V, class Factor>
inline void subtract_chain(const Pattern& p, const V* A, int first, int last, int n, int place, V* target,
                           Factor factor) {
  int k = last;
  for (; k > first; k -= 2) {
    const V *row = A + p.begin[k] + place, *next = A + p.begin[k - 1] + place, l = factor(k), m = factor(k - 1);
    for (int j = 0; j < n; ++j) target[j] = fnma(m, next[j], fnma(l, row[j], target[j]));
  }
  if (k < first) return;
  const V *row = A + p.begin[k] + place, l = factor(k);
  for (int j = 0; j < n; ++j) target[j] = fnma(l, row[j], target[j]);
}

// Eliminates the rows of a chain from row i, which is their ancestor.
template <class V>
inline void eliminate(const Pattern& p, V* A, const V* inverse_diagonal, int first, int last, int i) {
  const int place = p.place[i];
  V* row = A + p.begin[i];
  subtract_chain(p, A, first, last, place + 1, 0, row,
                 [&](int k) { return A[p.begin[k] + place] * inverse_diagonal[k]; });
  for (int k = first; k <= last; ++k) A[p.begin[k] + place] = A[p.begin[k] + place] * inverse_diagonal[k];
}

// A = LᵀDL in place, from the last row to the first: L below the diagonal, and D⁻¹ beside it.
template <class V>
void factorize(const Pattern& p, V* A, V* inverse_diagonal) {
  for (int c = p.chains - 1; c >= 0; --c) {
    const int first = p.chain[c].first, last = p.chain[c].last;
    for (int k = last; k >= first; --k) {
      eliminate(p, A, inverse_diagonal, k + 1, last, k);
      inverse_diagonal[k] = V(1) / A[p.at(k, k)];
    }
    for (std::uint64_t above = p.columns[first] ^ std::uint64_t{1} << first; above;) {
      const int i = 63 - std::countl_zero(above);
      eliminate(p, A, inverse_diagonal, first, last, i);
      above ^= std::uint64_t{1} << i;
    }
  }
}

// x = A⁻¹ x
template <class V>
void solve(const Pattern& p, const V* factor, const V* inverse_diagonal, V* x) {
  for (int c = p.chains - 1; c >= 0; --c) {
    const int first = p.chain[c].first, last = p.chain[c].last;
    const auto value = [x](int k) { return x[k]; };
    for (int k = last - 1; k >= first; --k) subtract_chain(p, factor, k + 1, last, 1, p.place[k], x + k, value);
    for (int r = 0, place = 0; place < p.place[first]; ++r) {
      const auto run = p.runs[first][r];
      const int n = std::min<int>(run.end, first) - run.begin;
      subtract_chain(p, factor, first, last, n, place, x + run.begin, value);
      place += n;
    }
  }
  for (int k = 0; k < p.size; ++k) {
    V value = x[k] * inverse_diagonal[k];
    each_below(p, k, factor, [&](int j, V l) { value = fnma(l, x[j], value); });
    x[k] = value;
  }
}

// y = A x
template <class V>
void multiply(const Pattern& p, const V* A, const V* x, V* y) {
  for (int k = 0; k < p.size; ++k) {
    const V value = x[k];
    V sum = A[p.at(k, k)] * value;
    each_below(p, k, A, [&](int j, V element) {
      sum = fma(element, x[j], sum);
      y[j] = fma(element, value, y[j]);
    });
    y[k] = sum;
  }
}

}  // namespace
}  // namespace headrace::lanes
