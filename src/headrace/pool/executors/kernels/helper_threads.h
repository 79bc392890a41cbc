// How the rows of one launch are shared by the calling thread and its helpers: the bodies of functions in
// helper_threads.py.
//
// Threads claim rows until none are left, so that nobody waits for a thread that has no core: what it did not claim,
// others do. How many rows are open stands in one word, together with all else that a claim depends on. Who claims rows
// may therefore read the launch, which nobody changes until these rows are done.
#pragma once

namespace headrace::kernels {

struct Call {
  void (*function)(unsigned long long bounds, unsigned long long arguments);
  unsigned long long bounds, arguments;
  unsigned long long bytes;  // of the arguments, at most MOST_BYTES in helper_threads.py
  unsigned long long first, share;  // where they hold the first row (int) and the number of rows (int)
  unsigned long long rows, least;  // all rows, and of how many a thread's share is a multiple
  unsigned long long threads;  // how many may take part

  void run(int begin, int count) const {
    alignas(64) char own[16384];
    __builtin_memcpy(own, reinterpret_cast<const char*>(arguments), bytes);
    __builtin_memcpy(own + first, &begin, sizeof begin);
    __builtin_memcpy(own + share, &count, sizeof count);
    function(bounds, reinterpret_cast<unsigned long long>(own));
  }
};

struct System {
  typedef int Yield();  // Warp has a macro int(), which it would see in a pointer's type
  Yield* sched_yield;
  long (*syscall)(long, ...);
  unsigned long long futex;  // the number of this system call; 0: there is none, and who finds nothing to do returns
};

struct alignas(64) Helper {
  int asleep;

  void wake(const System& system) {
    const int wake_private = 129;
    if (__atomic_load_n(&asleep, __ATOMIC_SEQ_CST) == 0 || __atomic_exchange_n(&asleep, 0, __ATOMIC_SEQ_CST) == 0)
      return;
    if (system.futex) system.syscall(static_cast<long>(system.futex), &asleep, wake_private, 1, nullptr, nullptr, 0);
  }
  void sleep(const System& system) {
    const int wait_private = 128;
    system.syscall(static_cast<long>(system.futex), &asleep, wait_private, 1, nullptr, nullptr, 0);
  }
};

struct alignas(64) Board {
  unsigned long long open;  // rows · 2³² + share · 2⁸ + threads
  alignas(64) unsigned long long done;  // rows
  alignas(64) const Call* call;
  unsigned long long ended;
  System system;
  Helper helpers[1];  // as many as there are, in fact; helper i is thread i + 1

  static unsigned long long rows(unsigned long long word) { return word >> 32; }
  static unsigned long long share(unsigned long long word) { return word >> 8 & 0xffffff; }
  static unsigned long long threads(unsigned long long word) { return word & 0xff; }

  // A thread's share is claimed at once: so the caller, which is there first, has the same rows in each launch, which
  // stand in its core's cache.
  static unsigned long long opened(const Call& call) {
    const auto threads = call.threads < 0xff ? call.threads : 0xff;
    auto share = (call.rows + threads - 1) / threads;
    share = (share + call.least - 1) / call.least * call.least;
    return call.rows << 32 | (share < 0xffffff ? share : 0xffffff) << 8 | threads;
  }

  bool has_rows_for(unsigned long long thread) const {
    const auto word = __atomic_load_n(&open, __ATOMIC_SEQ_CST);
    return rows(word) > 0 && thread < threads(word);
  }

  // Runs rows until none are open; returns whether there were any. Threads wake one another, like branches of a tree.
  bool work(unsigned long long thread) {
    auto word = __atomic_load_n(&open, __ATOMIC_ACQUIRE);
    if (rows(word) == 0 || thread >= threads(word)) return false;
    for (auto next = 2 * thread + 1; next <= 2 * thread + 2; ++next)
      if (next < threads(word)) helpers[next - 1].wake(system);
    bool worked = false;
    while (rows(word) > 0 && thread < threads(word)) {
      const auto count = share(word) < rows(word) ? share(word) : rows(word);
      if (!__atomic_compare_exchange_n(&open, &word, word - (count << 32), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        continue;
      call->run(static_cast<int>(call->rows - rows(word)), static_cast<int>(count));
      __atomic_fetch_add(&done, count, __ATOMIC_ACQ_REL);
      worked = true;
      word = __atomic_load_n(&open, __ATOMIC_ACQUIRE);
    }
    return worked;
  }
};

static_assert(sizeof(Helper) == 64 && sizeof(Board) == 4 * 64);  // LINE and HEAD in helper_threads.py

// The life of a thread: takes part in launches, and sleeps when `looks` looks in a row have found none.
inline void serve(unsigned long long board, unsigned long long thread, int looks) {
  auto& here = *reinterpret_cast<Board*>(board);
  auto& self = here.helpers[thread - 1];
  while (!__atomic_load_n(&here.ended, __ATOMIC_SEQ_CST)) {
    for (int look = 0; look < looks; ++look) {
      if (here.work(thread)) look = 0;
      here.system.sched_yield();
    }
    if (!here.system.futex) return;
    __atomic_store_n(&self.asleep, 1, __ATOMIC_SEQ_CST);
    // who opens a launch looks who sleeps after that: one of both sees the other
    if (!here.has_rows_for(thread) && !__atomic_load_n(&here.ended, __ATOMIC_SEQ_CST)) self.sleep(here.system);
    __atomic_store_n(&self.asleep, 0, __ATOMIC_SEQ_CST);
  }
}

// Runs all rows of a launch, with what helpers have a core.
inline void lead(unsigned long long board, unsigned long long call) {
  auto& here = *reinterpret_cast<Board*>(board);
  here.call = reinterpret_cast<const Call*>(call);
  __atomic_store_n(&here.done, 0, __ATOMIC_RELAXED);
  const auto rows = here.call->rows;
  __atomic_store_n(&here.open, Board::opened(*here.call), __ATOMIC_SEQ_CST);
  here.work(0);
  while (__atomic_load_n(&here.done, __ATOMIC_ACQUIRE) < rows) here.system.sched_yield();
}

// Ends the lives of so many helpers.
inline void end(unsigned long long board, int helpers) {
  auto& here = *reinterpret_cast<Board*>(board);
  __atomic_store_n(&here.ended, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < helpers; ++i) here.helpers[i].wake(here.system);
}

}  // namespace headrace::kernels
