// Every item of every loop and queue is worked on once, for any threads and nodes; run this under the thread sanitizer.
#include "../engine/workers.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>

#include "../engine/together.hpp"
#include "check.hpp"

using headrace::BadThreads;
using headrace::run_together;
using headrace::Topology;
using headrace::Workers;
using namespace std::chrono_literals;

namespace {

// How often threads gave their core away, which `Workers` do while they look for work.
struct Yields {
  static constexpr int most = 64;
  std::array<std::atomic<int>, most> of_thread{};
  std::atomic<int> threads{0};

  void add() {
    thread_local const int mine = threads++ % most;
    ++of_thread[static_cast<std::size_t>(mine)];
  }
  void clear() {
    for (auto& number : of_thread) number = 0;
  }
  // the library's wait itself gives the core away a few times
  int by_threads_that_look() const {
    return static_cast<int>(std::ranges::count_if(of_thread, [](const auto& number) { return number >= 100; }));
  }
} yields;

struct Counts {
  explicit Counts(int n) : seen(static_cast<std::size_t>(n)) {}
  std::vector<std::atomic<int>> seen;
  static void count(void* self, int first, int last) {
    for (int item = first; item < last; ++item) ++static_cast<Counts*>(self)->seen[static_cast<std::size_t>(item)];
  }
  static void count_all(void* self, const int* items, int count) {
    for (int i = 0; i < count; ++i) Counts::count(self, items[i], items[i] + 1);
  }
  int total() const { return std::accumulate(seen.begin(), seen.end(), 0); }
};

// A machine of so many nodes; all of them share our cores, so that pinning works anywhere.
Topology pretend(int nodes) {
  auto cores = Topology::of_this_machine().nodes[0];
  return {std::vector<std::vector<int>>(static_cast<std::size_t>(nodes), cores)};
}

void loops_visit_each_item_once() {
  for (auto [threads, group] : {std::pair{0, 1}, {1, 1}, {3, 1}, {7, 1}, {0, 8}, {3, 5}, {7, 64}})
    for (int nodes : {1, 2, 5})
      for (int count : {1, 2, 13, 1000}) {
        Workers workers(threads, 1, pretend(nodes), -1, group);
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

// Threads that come late to one loop must neither miss nor repeat items of the next.
void late_threads_miss_no_items_of_short_loops() {
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

void helpers_do_a_loop_without_the_caller() {
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

void loops_are_handed_out_in_groups() {
  static constexpr int group = 4, count = 23;
  Workers workers(2, 1, pretend(1), -1, group);
  std::vector<std::atomic<int>> beginnings(count);
  auto note = [](void* self, int first, int last) {
    CHECK(last - first == std::min(group, count - first));
    ++(*static_cast<std::vector<std::atomic<int>>*>(self))[static_cast<std::size_t>(first)];
  };
  workers.start(count, note, &beginnings, Workers::Who::caller_too);
  workers.take_part();
  CHECK(workers.wait_done(10s));
  for (int i = 0; i < count; ++i) CHECK(beginnings[static_cast<std::size_t>(i)] == (i % group == 0));
}

void queue_serves_each_item_once(int group) {
  constexpr int n = 32;
  Workers workers(4, n, pretend(1), 0, group);
  struct State {
    Counts counts{n};
    int group;
    std::atomic<int> done{0};
    Workers* workers;
  } state;
  state.group = group, state.workers = &workers;
  workers.serve_queue(
      [](void* self, const int* items, int count) {
        auto& s = *static_cast<State*>(self);
        CHECK(count >= 1 && count <= s.group);
        Counts::count_all(&s.counts, items, count);
        s.done += count;
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

// A few items are shared among threads with nothing to do; many go in whole groups, in their order.
void queue_is_shared_evenly() {
  std::vector<std::vector<int>> served;
  std::atomic<int> done{0};
  auto state = std::pair(&served, &done);
  Workers workers(1, 16, pretend(1), -1, 4);
  workers.serve_queue(
      [](void* self, const int* items, int count) {
        auto& [served, done] = *static_cast<decltype(state)*>(self);
        served->emplace_back(items, items + count);
        *done += count;
      },
      &state);
  std::vector<int> ten(10);
  std::iota(ten.begin(), ten.end(), 0);
  workers.push(ten.data(), 10);
  while (done < 10) std::this_thread::yield();
  CHECK((served == std::vector<std::vector<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));

  std::atomic<int> most{0}, total{0};
  auto counts = std::pair(&most, &total);
  Workers two(2, 16, {{{0, 1}}}, -1, 4);
  two.serve_queue(
      [](void* self, const int*, int count) {
        auto& [most, total] = *static_cast<decltype(counts)*>(self);
        if (*most < count) *most = count;
        *total += count;
        std::this_thread::sleep_for(20ms);
      },
      &counts);
  two.push(ten.data(), 4);
  while (total < 4) std::this_thread::yield();
  CHECK(most == 2);
}

// Of eight threads on two cores, two look for more work before they sleep, and groups are as large as for two.
void threads_beyond_the_cores_sleep_at_once() {
  std::array<std::atomic<int>, 3> groups{};
  Workers workers(8, 16, {{{0, 1}}}, -1, 4);
  std::this_thread::sleep_for(50ms);
  yields.clear();
  Counts counts(800);
  workers.start(800, Counts::count, &counts, Workers::Who::helpers);
  while (counts.total() < 800) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  CHECK(yields.by_threads_that_look() <= 2);
  workers.serve_queue([](void* self, const int*, int count) { ++(*static_cast<decltype(groups)*>(self))[count / 2]; },
                      &groups);
  workers.push(std::array{0, 1, 2, 3, 4, 5, 6, 7}.data(), 8);
  while (groups[0] + 2 * groups[1] + 4 * groups[2] < 8) std::this_thread::sleep_for(1ms);
  CHECK(groups[2] >= 1);
}

void workers_end_with_work_left() {
  for (int i = 0; i < 50; ++i) {
    Counts counts(1000);
    Workers workers(2, 1000, pretend(1), -1);
    workers.serve_queue(Counts::count_all, &counts);
    std::vector<int> all(1000);
    std::iota(all.begin(), all.end(), 0);
    workers.push(all.data(), 1000);
  }
}

void waiting_gives_up_in_time() {
  Workers workers(1, 1, pretend(1), -1);
  CHECK(!workers.wait_until([] { return false; }, 1ms));
}

// Each thread runs once, and none before all are there.
void threads_begin_together() {
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

// In the place of the system's.
extern "C" int sched_yield() noexcept {
  yields.add();
  return static_cast<int>(syscall(SYS_sched_yield));
}

int main() {
  threads_begin_together();
  loops_visit_each_item_once();
  late_threads_miss_no_items_of_short_loops();
  helpers_do_a_loop_without_the_caller();
  loops_are_handed_out_in_groups();
  queue_serves_each_item_once(1);
  queue_serves_each_item_once(5);
  queue_is_shared_evenly();
  threads_beyond_the_cores_sleep_at_once();
  workers_end_with_work_left();
  waiting_gives_up_in_time();
  std::puts("test_workers: 10 passed, 0 failed");
}
