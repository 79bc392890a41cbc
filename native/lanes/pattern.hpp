// The elements of a symmetric matrix that can differ from zero: the columns before the diagonal of each row, and the
// diagonal.
//
// The inertia matrix has the tree of degrees of freedom as its pattern; a contact between two branches couples them.
// Rows lie packed, one after the other. A row's columns before the diagonal are those of its parent's row, with the
// parent as the last: so a column lies at the same place in every row that has it.
#pragma once

#include <cstdint>

namespace headrace::lanes {

struct Pattern {
  static constexpr int kMost = 64;  // rows; the columns of a row are bits of a word

  struct Run {
    std::uint8_t begin, end;
  };  // columns
  struct Chain {
    std::uint8_t first, last;
  };  // rows; the parent of each but the first is the one before

  int size = 0, elements = 0, chains = 0;
  std::uint64_t columns[kMost] = {};  // of row i: the columns before i, and i
  int begin[kMost] = {};  // the place where row i begins
  std::uint8_t place[kMost] =
      {};  // the place of column i in a row, and the number of columns before the diagonal of row i
  std::uint8_t count[kMost] = {};  // runs of row i
  Run runs[kMost][kMost / 2] = {};
  Chain chain[kMost] = {};

  int at(int i, int j) const { return begin[i] + place[j]; }

  // After `columns` was written: adds the elements that elimination from the last row to the first makes other than
  // zero, and fills the rest.
  void complete();
};

}  // namespace headrace::lanes
