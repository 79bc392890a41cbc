// Which elements of a symmetric matrix can differ from zero: of each row the columns before the diagonal, and it.
//
// Of the inertia matrix they are the tree of degrees of freedom; a contact between two branches couples them. Rows lie
// packed, one after the other. A row's columns before the diagonal are those of its parent's row, with the parent as the
// last: so a column lies at the same place in every row that has it.
#pragma once

#include <cstdint>

namespace headrace::lanes {

struct Pattern {
  static constexpr int kMost = 64;  // rows: a row's columns are bits of a word

  struct Run {
    std::uint8_t begin, end;
  };  // columns
  struct Chain {
    std::uint8_t first, last;
  };  // rows, each of which but the first has the one before as its parent

  int size = 0, elements = 0, chains = 0;
  std::uint64_t columns[kMost] = {};  // of row i, those before i, and i
  int begin[kMost] = {};  // where row i begins
  std::uint8_t place[kMost] = {};  // where column i lies in a row, and how many are before the diagonal of row i
  std::uint8_t count[kMost] = {};  // runs of row i
  Run runs[kMost][kMost / 2] = {};
  Chain chain[kMost] = {};

  int at(int i, int j) const { return begin[i] + place[j]; }

  // after `columns` was written: what elimination from the last row to the first makes other than zero, and the rest
  void complete();
};

}  // namespace headrace::lanes
