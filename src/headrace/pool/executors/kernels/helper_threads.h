// How the calling thread hands parts of a launch to its helpers: the bodies of functions in helper_threads.py.
//
// The caller turns EMPTY into POSTED; it turns POSTED and DONE into EMPTY. A helper turns POSTED into TAKEN, and TAKEN
// into DONE. The caller writes a part only while its mailbox is EMPTY; a helper reads it only while it is TAKEN.
#pragma once

namespace headrace::kernels {

enum : unsigned long long { EMPTY, POSTED, TAKEN, DONE };

struct Part {
  void (*function)(unsigned long long, unsigned long long);
  unsigned long long arguments[2];
  void run() const { function(arguments[0], arguments[1]); }
};

struct alignas(64) Mailbox {
  unsigned long long state;
  Part part;
  alignas(64) unsigned long long awake;  // whether the helper looks at it; on a cache line of its own

  static unsigned long long read(const unsigned long long& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
  static void write(unsigned long long& word, unsigned long long value) {
    __atomic_store_n(&word, value, __ATOMIC_RELEASE);
  }
  bool turn(unsigned long long from, unsigned long long to) {
    return __atomic_compare_exchange_n(&state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
};

static_assert(sizeof(Mailbox) == 16 * 8);  // WORDS in helper_threads.py

// Runs parts until the mailbox was found empty `looks` times in a row.
inline void serve(unsigned long long mailbox, int looks, unsigned long long sched_yield_address) {
  typedef int Yield();
  auto give_core_away = reinterpret_cast<Yield*>(sched_yield_address);
  auto& box = *reinterpret_cast<Mailbox*>(mailbox);
  Mailbox::write(box.awake, 1);
  for (int look = 0; look < looks; ++look) {
    if (Mailbox::read(box.state) == POSTED && box.turn(POSTED, TAKEN)) {
      box.part.run();
      Mailbox::write(box.state, DONE);
      look = 0;
    }
    give_core_away();
  }
  Mailbox::write(box.awake, 0);
}

// Runs `count` parts: posts all but the first, runs the first and those that no helper has taken, and waits for the
// rest. Writes to `sleepers` how many helpers were not awake.
inline void lead(unsigned long long mailboxes, unsigned long long sleepers, unsigned long long parts, int count,
                 unsigned long long sched_yield_address) {
  typedef int Yield();
  auto give_core_away = reinterpret_cast<Yield*>(sched_yield_address);
  auto* boxes = reinterpret_cast<Mailbox*>(mailboxes);
  auto* part = reinterpret_cast<const Part*>(parts);
  unsigned long long asleep = 0;
  for (int i = 1; i < count; ++i) {
    boxes[i - 1].part = part[i];
    Mailbox::write(boxes[i - 1].state, POSTED);
    asleep += !Mailbox::read(boxes[i - 1].awake);
  }
  *reinterpret_cast<unsigned long long*>(sleepers) = asleep;
  part[0].run();
  for (int i = 1; i < count; ++i)
    if (boxes[i - 1].turn(POSTED, EMPTY)) part[i].run();
  for (int i = 1; i < count; ++i) {
    while (Mailbox::read(boxes[i - 1].state) == TAKEN) give_core_away();
    Mailbox::write(boxes[i - 1].state, EMPTY);
  }
}

}  // namespace headrace::kernels
