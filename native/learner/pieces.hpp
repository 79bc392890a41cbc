// How work is cut for threads: by rows, each of which is evaluated by itself, and where rows are summed, by what sums are
// of. So no sum depends on the number of threads.
#pragma once

#include <algorithm>

#include "team.hpp"

namespace headrace::learner {
namespace {

// rows, or columns, from one up to another
struct Range {
  int begin, end;

  Range(int n) : Range(0, n) {}
  Range(int first, int last) : begin(first), end(last) {}
  int size() const { return end - begin; }
};

constexpr double kWorth = 1 << 20;  // products that are worth another thread: some ten microseconds

// as many threads as some products keep busy
inline int threads_for(double products, int threads) {
  return std::max(1, static_cast<int>(std::min<double>(threads, products / kWorth)));
}

// work(part, thread) for each part
template <class Work>
inline void in_parts(int threads, int parts, const Work& work) {
  if (threads > 1 && parts > 1) return Team::mine().each(threads, parts, work);
  for (int part = 0; part < parts; ++part) work(part, 0);
}

// some rows of a block, which one thread takes through networks
struct Piece {
  int number;
  Range rows;
  int thread;

  Piece(int n) : Piece(0, n, 0) {}
  Piece(int which, Range some, int whose) : number(which), rows(some), thread(whose) {}
};

// A block of rows in pieces; each row takes some products. Two for each thread, if they are large: one that begins late
// has fewer.
class Pieces {
 public:
  static constexpr int kLarge = 32;  // rows of a piece for which it pays to read a network's weights

  Pieces(int rows, double products, int threads, int grain)
      : rows_(rows), threads_(threads_for(rows * products, threads)) {
    const int most = threads_ == 1 ? 1 : std::max(threads_, std::min(2 * threads_, rows / kLarge));
    step_ = ((rows + most - 1) / most + grain - 1) / grain * grain;
  }

  int threads() const { return threads_; }
  int count() const { return (rows_ + step_ - 1) / step_; }

  // work(piece) for each of them
  template <class Work>
  void each(const Work& work) const {
    in_parts(threads_, count(),
             [&](int i, int thread) { work(Piece(i, {i * step_, std::min((i + 1) * step_, rows_)}, thread)); });
  }

 private:
  int rows_, threads_, step_;
};

}  // namespace
}  // namespace headrace::learner
