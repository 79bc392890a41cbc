// The numbers of a block of inputs that are not zero. Of one-hot codes and flags few are, and only those add to products.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "pieces.hpp"
#include "product.hpp"

namespace headrace::learner {
namespace {

template <class V>
class Sparse {
  struct Entry {
    int place;
    float value;
  };  // of a row's list the place is a column, of a column's list a row

  struct Lists {
    std::vector<int> begins;  // of each list, and the end
    std::vector<Entry> entries;
  };

 public:
  static constexpr int kFewest = 128;  // columns from which it pays to look
  static constexpr int kShare = 8;  // it pays where no more than one number of so many is not zero

  // Takes rows of numbers, of which row(r) is the first; returns false, and has nothing, where it does not pay. Columns'
  // lists are only made if they are asked for.
  template <class Row>
  bool take(int rows, int columns, Row row, bool turns) {
    has_ = false;
    if (columns < kFewest) return false;
    const int most = rows * columns / kShare;
    by_row_.entries.resize(static_cast<std::size_t>(most + columns));
    by_row_.begins.assign(1, 0);
    Entry *const first = by_row_.entries.data(), *next = first;
    for (int r = 0; r < rows; ++r) {
      const float* x = row(r);
      int c = 0;
      for (; c + V::width <= columns; c += V::width)
        for (std::uint32_t set = bits(~(load<V>(x + c) == V(0))); set != 0; set &= set - 1) {
          const int place = c + __builtin_ctz(set);
          *next++ = {place, x[place]};
        }
      for (; c < columns; ++c)
        if (x[c] != 0) *next++ = {c, x[c]};
      by_row_.begins.push_back(static_cast<int>(next - first));
      if (next - first > most) return false;
    }
    if (turns) turn(columns);
    return has_ = true;
  }

  explicit operator bool() const { return has_; }

  // C = finish(start + A B), of A's rows: as headrace::learner::product, which adds zeros
  template <class Start, class Finish>
  void product(int columns, const float* B, std::ptrdiff_t ldb, Start start, Finish finish) const {
    each_list<false>(by_row_, static_cast<int>(by_row_.begins.size()) - 1, columns, B, ldb, start, finish);
  }

  // C = finish(start + Aᵀ B), of those of some of A's columns that are not zero
  template <class Start, class Finish>
  void product_of_columns(Range some, int columns, const float* B, std::ptrdiff_t ldb, Start start,
                          Finish finish) const {
    each_list<true>(by_column_, some, columns, B, ldb, start, finish);
  }

 private:
  template <bool skips_empty, class Start, class Finish>
  static void each_list(const Lists& lists, Range some, int columns, const float* B, std::ptrdiff_t ldb, Start start,
                        Finish finish) {
    constexpr int kAtOnce = 8;  // registers
    int n = 0;
    for (; n + kAtOnce * V::width <= columns; n += kAtOnce * V::width)
      sums<skips_empty, kAtOnce>(lists, some, n, B, ldb, start, finish);
    for (; n < columns; n += V::width) sums<skips_empty, 1>(lists, some, n, B, ldb, start, finish);
  }

  template <bool skips_empty, int count, class Start, class Finish>
  static void sums(const Lists& lists, Range some, int n, const float* B, std::ptrdiff_t ldb, Start start,
                   Finish finish) {
    for (int m = some.begin; m < some.end; ++m) {
      const Entry *each = lists.entries.data() + lists.begins[static_cast<std::size_t>(m)],
                  *end = lists.entries.data() + lists.begins[static_cast<std::size_t>(m) + 1];
      if (skips_empty && each == end) continue;
      V sum[count];
      for (int c = 0; c < count; ++c) sum[c] = start(m, n + c * V::width);
      for (; each != end; ++each) {
        const float* b = B + each->place * ldb + n;
        const V left(each->value);
        for (int c = 0; c < count; ++c) sum[c] = fma(left, load<V>(b + c * V::width), sum[c]);
      }
      for (int c = 0; c < count; ++c) finish(m, n + c * V::width, sum[c]);
    }
  }

  // Makes the columns' lists of the rows'.
  void turn(int columns) {
    if (by_column_.entries.size() < by_row_.entries.size()) by_column_.entries.resize(by_row_.entries.size());
    auto& begins = by_column_.begins;
    begins.assign(static_cast<std::size_t>(columns) + 1, 0);
    const int total = by_row_.begins.back();
    for (int i = 0; i < total; ++i)
      ++begins[static_cast<std::size_t>(by_row_.entries[static_cast<std::size_t>(i)].place)];
    int sum = 0;
    for (int& begin : begins) sum += std::exchange(begin, sum);
    next_ = begins;
    for (int r = 0; r + 1 < static_cast<int>(by_row_.begins.size()); ++r)
      for (int i = by_row_.begins[static_cast<std::size_t>(r)]; i < by_row_.begins[static_cast<std::size_t>(r) + 1];
           ++i) {
        const Entry entry = by_row_.entries[static_cast<std::size_t>(i)];
        by_column_.entries[static_cast<std::size_t>(next_[static_cast<std::size_t>(entry.place)]++)] = {r, entry.value};
      }
  }

  bool has_ = false;
  Lists by_row_, by_column_;
  std::vector<int> next_;
};

}  // namespace
}  // namespace headrace::learner
