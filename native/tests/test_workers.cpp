// Every item of every loop and queue is worked on once, whatever the threads and nodes; run it
// under the thread sanitizer.
#include "../engine/workers.hpp"

#include <atomic>
#include <numeric>

#include "../engine/together.hpp"
#include "check.hpp"

using headrace::BadThreads;
using headrace::Topology;
using headrace::Workers;
using headrace::run_together;
using namespace std::chrono_literals;

namespace {

struct Counts {
  explicit Counts(int n) : seen(static_cast<std::size_t>(n)) {}
  std::vector<std::atomic<int>> seen;
  static void count(void* self, int item) { ++static_cast<Counts*>(self)->seen[static_cast<std::size_t>(item)]; }
  int total() const { return std::accumulate(seen.begin(), seen.end(), 0); }
};

// a machine of so many nodes; all of them share our cores, so that pinning works anywhere
Topology pretend(int nodes) {
  auto cores = Topology::of_this_machine().nodes[0];
  return {std::vector<std::vector<int>>(static_cast<std::size_t>(nodes), cores)};
}

void loops_visit_each_item_once() {
  for (int threads : {0, 1, 3, 7})
    for (int nodes : {1, 2, 5})
      for (int count : {1, 2, 13, 1000}) {
        Workers workers(threads, 1, pretend(nodes), -1);
        CHECK(workers.nodes() <= std::max(threads, 1));
        Counts counts(count);
        for (int round = 1; round <= 20; ++round) {
          workers.start(count, Counts::count, &counts, Workers::Who::caller_too);
          workers.take_part();
          CHECK(workers.wait_done(10s));
          for (auto& seen : counts.seen) CHECK(seen == round);
        }
      }
}

// threads that come late to one loop must neither miss nor repeat items of the next
void many_short_loops() {
  Workers workers(3, 1, pretend(2), -1);
  Counts counts(5);
  int rounds = 20000;
  for (int i = 0; i < rounds; ++i) {
    workers.start(2 + i % 4, Counts::count, &counts, Workers::Who::caller_too);
    workers.take_part();
    CHECK(workers.wait_done(10s));
  }
  CHECK(counts.total() == rounds / 4 * (2 + 3 + 4 + 5));
}

void loop_without_the_caller() {
  Workers workers(2, 1, pretend(2), -1);
  for (auto who : {Workers::Who::helpers, Workers::Who::helpers_at_home})
    for (int count : {1, 64}) {
      std::this_thread::sleep_for(20ms);  // the helpers are asleep by now
      Counts counts(64);
      workers.start(count, Counts::count, &counts, who);
      CHECK(workers.wait_done(10s));
      CHECK(counts.total() == count);
    }
}

void queue_serves_each_item_once() {
  constexpr int n = 32;
  Workers workers(4, n, pretend(1), 0);
  struct State {
    Counts counts{n};
    std::atomic<int> done{0};
    Workers* workers;
  } state;
  state.workers = &workers;
  workers.serve_queue(
      [](void* self, int item) {
        auto& s = *static_cast<State*>(self);
        Counts::count(&s.counts, item);
        ++s.done;
        s.workers->announce();
      },
      &state);
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  for (int round = 1; round <= 500; ++round) {
    workers.push(all.data(), n / 2);
    workers.push(all.data() + n / 2, n / 2);
    CHECK(workers.wait_until([&] { return state.done == round * n; }, 10s));
    for (auto& seen : state.counts.seen) CHECK(seen == round);
  }
}

void ends_with_work_left() {
  for (int i = 0; i < 50; ++i) {
    Counts counts(1000);
    Workers workers(2, 1000, pretend(1), -1);
    workers.serve_queue(Counts::count, &counts);
    std::vector<int> all(1000);
    std::iota(all.begin(), all.end(), 0);
    workers.push(all.data(), 1000);
  }
}

void waiting_gives_up_in_time() {
  Workers workers(1, 1, pretend(1), -1);
  CHECK(!workers.wait_until([] { return false; }, 1ms));
}

// each runs once, and none before all are there
void threads_that_begin_together() {
  for (int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(threads));
    CHECK(run_together(threads, [&](int i) { ++runs[static_cast<std::size_t>(i)]; }) > 0);
    for (const auto& times : runs) CHECK(times == 1);
  }
  for (int threads : {-1, 0, 1025}) {
    try {
      run_together(threads, [](int) {});
      CHECK(false);
    } catch (const BadThreads&) {
    }
  }
}

}  // namespace

int main() {
  threads_that_begin_together();
  loops_visit_each_item_once();
  many_short_loops();
  loop_without_the_caller();
  queue_serves_each_item_once();
  ends_with_work_left();
  waiting_gives_up_in_time();
  std::puts("test_workers: 7 passed, 0 failed");
}
