// Work in parts, which have nothing in common that any of them writes.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace headrace::learner {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// waits while `word` is `value`: awake for some microseconds, as parts often follow each other closely, then asleep
inline void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  constexpr int kSpins = 64;
  for (int i = 0; i < kSpins && word.load(std::memory_order_acquire) == value; ++i) relax();
  word.wait(value, std::memory_order_acquire);
}

// Threads beside one that asks for them: they are kept until that one ends, and sleep between calls. Whoever is awake
// takes the next part, and so does the caller: it waits for none but those that are at work.
class Team {
 public:
  // the calling thread's own; a process that was forked from one with such threads begins others
  static Team& mine() {
    thread_local Owner owner;
    if (owner.team == nullptr || owner.team->process_ != getpid()) owner.team = new Team;
    return *owner.team;
  }

  // work(part, thread) for each part, on so many threads at most, of which the caller is number 0. The first exception of
  // a part is thrown when all have ended.
  template <class Work>
  void each(int threads, int parts, const Work& work) {
    const int helpers = hire(std::min(threads, parts) - 1);
    if (helpers <= 0) {
      for (int part = 0; part < parts; ++part) work(part, 0);
      return;
    }
    work_ = &work, call_ = [](const void* w, int part, int thread) { (*static_cast<const Work*>(w))(part, thread); };
    left_.store(static_cast<std::uint32_t>(parts), std::memory_order_relaxed);
    state_.store(State(helpers, parts, 0).word, std::memory_order_release);
    take_parts(0);
    for (std::uint32_t left; (left = left_.load(std::memory_order_acquire)) != 0;) wait_while(left_, left);
    if (failed_.load(std::memory_order_relaxed)) {
      failed_.store(false, std::memory_order_relaxed);
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

 private:
  static constexpr int kMost = 1 << 10;  // helpers

  // how many helpers may take parts, the number of parts, and the next one
  struct State {
    std::uint64_t word;
    explicit State(std::uint64_t given) : word(given) {}
    State(int helpers, int parts, int next)
        : word(static_cast<std::uint64_t>(helpers) << 48 | static_cast<std::uint64_t>(parts) << 24 |
               static_cast<std::uint64_t>(next)) {}
    int helpers() const { return static_cast<int>(word >> 48); }
    int parts() const { return static_cast<int>(word >> 24 & 0xffffff); }
    int next() const { return static_cast<int>(word & 0xffffff); }
  };

  struct alignas(64) Helper {
    std::atomic<std::uint32_t> called{0};
    std::thread thread;
  };

  struct Owner {
    Team* team = nullptr;
    ~Owner() {
      if (team != nullptr && team->process_ == getpid())
        delete team;  // of a forked process the threads are its parent's
    }
  };

  Team() = default;
  ~Team() {
    over_.store(true, std::memory_order_relaxed);
    for (const auto& helper : helpers_) wake(*helper);
    for (const auto& helper : helpers_) helper->thread.join();
  }

  // returns how many helpers there are, of those that are wanted
  int hire(int wanted) {
    wanted = std::min(wanted, kMost);
    while (static_cast<int>(helpers_.size()) < wanted) {
      auto helper = std::make_unique<Helper>();
      const int number = static_cast<int>(helpers_.size()) + 1;
      try {
        helper->thread = std::thread([this, number, mine = helper.get()] { run(*mine, number); });
      } catch (const std::system_error&) {  // the system gives no more threads
        return number - 1;
      }
      helpers_.push_back(std::move(helper));
    }
    return wanted;
  }

  static void wake(Helper& helper) {
    helper.called.fetch_add(1, std::memory_order_release);
    helper.called.notify_one();
  }

  void run(Helper& mine, int number) {
    for (std::uint32_t seen = 0;;) {
      for (; mine.called.load(std::memory_order_acquire) == seen;) wait_while(mine.called, seen);
      if (over_.load(std::memory_order_relaxed)) return;
      seen = mine.called.load(std::memory_order_acquire);
      take_parts(number);
    }
  }

  // Whoever has the first part of a call wakes two others if there are more: a tree of helpers is awake soon, and few are
  // woken for whom there is no part, or no core.
  void take_parts(int number) {
    bool woke = false;
    State state(state_.load(std::memory_order_acquire));
    while (number <= state.helpers() && state.next() < state.parts()) {
      const State after(state.word + 1);
      if (!state_.compare_exchange_weak(state.word, after.word, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      if (!std::exchange(woke, true))
        for (const int child : {2 * number + 1, 2 * number + 2})
          if (child <= state.helpers() && after.next() + child - 2 * number <= state.parts())
            wake(*helpers_[static_cast<std::size_t>(child - 1)]);
      take(state.next(), number);
      state = after;
    }
  }

  void take(int part, int number) {
    try {
      call_(work_, part, number);
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
  }

  const void* work_ = nullptr;
  void (*call_)(const void*, int, int) = nullptr;
  alignas(64) std::atomic<std::uint64_t> state_{0};
  alignas(64) std::atomic<std::uint32_t> left_{0};  // parts that have not ended
  std::atomic<bool> failed_{false}, over_{false};
  std::exception_ptr failure_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  const pid_t process_ = getpid();
};

}  // namespace
}  // namespace headrace::learner
