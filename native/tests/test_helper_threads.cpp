// Each row of a launch is run once, by a helper or by the caller, and its writes are seen when the launch returns; run
// this under the thread sanitizer.
#include "headrace/pool/executors/kernels/helper_threads.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "check.hpp"

using headrace::kernels::Board;
using headrace::kernels::Call;

namespace {

using Word = unsigned long long;

Word address(const void* of) { return reinterpret_cast<std::uintptr_t>(of); }

struct Row {
  int runs = 0;  // no atomic: the claims alone keep threads apart
  int argument = 0;
};

// The arguments of a launch, packed as Warp's are.
struct Arguments {
  Row* rows;
  int argument;
  int first = 0, share = 0;
};

void run(Word, Word address) {
  const auto& given = *reinterpret_cast<const Arguments*>(address);
  for (int row = given.first; row < given.first + given.share; ++row) {
    ++given.rows[row].runs;
    given.rows[row].argument = given.argument;
  }
}

class Helpers {
 public:
  Helpers(int count, int looks, Word futex) : memory_(sizeof(Board) + 64 * static_cast<std::size_t>(count + 1)) {
    const auto start = (address(memory_.data()) + 63) / 64 * 64;
    board_ = reinterpret_cast<Board*>(start);
    board_->system = {sched_yield, syscall, futex};
    for (int i = 1; i <= count; ++i)
      threads_.emplace_back([this, i, looks] {
        do headrace::kernels::serve(address(board_), static_cast<Word>(i), looks);
        while (!__atomic_load_n(&board_->ended, __ATOMIC_SEQ_CST));
      });
  }
  ~Helpers() {
    headrace::kernels::end(address(board_), static_cast<int>(threads_.size()));
    for (auto& thread : threads_) thread.join();
  }
  Board& board() { return *board_; }

 private:
  std::vector<std::byte> memory_;
  Board* board_;
  std::vector<std::thread> threads_;
};

void launch(Board& board, std::vector<Row>& rows, int argument, Word least, Word threads) {
  const Arguments packed{rows.data(), argument};
  const Call call{
      run,         0,     address(&packed), sizeof packed, offsetof(Arguments, first), offsetof(Arguments, share),
      rows.size(), least, threads};
  headrace::kernels::lead(address(&board), address(&call));
}

void each_row_runs_once(int helpers, int looks, Word futex) {
  Helpers threads(helpers, looks, futex);
  std::vector<Row> rows;
  for (int round = 1; round <= 1000; ++round) {
    rows.assign(static_cast<std::size_t>(1 + round * 7 % 300), {});
    // fewer threads than there are in other launches, and more
    launch(threads.board(), rows, round, static_cast<Word>(1 + round % 70),
           static_cast<Word>(1 + round % (helpers + 2)));
    for (const auto& row : rows) CHECK(row.runs == 1 && row.argument == round);
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // helpers fall asleep
  }
}

void the_caller_runs_what_no_helper_claims() {
  Helpers none(0, 1, SYS_futex);
  std::vector<Row> rows(100);
  launch(none.board(), rows, 7, 3, 1);
  for (const auto& row : rows) CHECK(row.runs == 1 && row.argument == 7);
  CHECK(none.board().done == 100 && Board::rows(none.board().open) == 0);
}

void a_share_is_claimed_at_once() {
  static std::vector<int> shares;
  const Arguments packed{nullptr, 0};
  auto note = [](Word, Word given) { shares.push_back(reinterpret_cast<const Arguments*>(given)->share); };
  const Call call{
      note, 0, address(&packed), sizeof packed, offsetof(Arguments, first), offsetof(Arguments, share), 1000, 64, 3};
  Helpers none(0, 1, SYS_futex);
  headrace::kernels::lead(address(&none.board()), address(&call));
  CHECK((shares == std::vector<int>{384, 384, 232}));
}

}  // namespace

int main() {
  for (int helpers : {1, 2, 7})
    for (int looks : {1, 50})
      for (Word futex : {Word{SYS_futex}, Word{0}}) each_row_runs_once(helpers, looks, futex);
  the_caller_runs_what_no_helper_claims();
  a_share_is_claimed_at_once();
}
