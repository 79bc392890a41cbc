// Which elements of a symmetric matrix can differ from zero, row by row up to the diagonal, as runs of columns.
//
// Of the inertia matrix it is the tree of degrees of freedom; a contact between two branches couples them.
#pragma once

#include <cstdint>

namespace headrace::lanes {

struct Pattern {
  static constexpr int kMost = 64;  // rows: a row's columns are bits of a word

  struct Run {
    std::uint8_t begin, end;
  };

  int size = 0;
  std::uint64_t columns[kMost] = {};  // of row i, those below i, and i
  std::uint8_t count[kMost] = {};     // runs of row i
  Run runs[kMost][kMost / 2] = {};

  // after `columns` was written: what elimination from the last row to the first makes other than zero, and the runs
  void complete();
};

// where element (i, j ≤ i) lies in the triangle
constexpr int at(int i, int j) { return i * (i + 1) / 2 + j; }

}  // namespace headrace::lanes
