// The threads of a pool, and the two ways to give them work: a loop over items in which the
// calling thread takes part, and a queue served first come first served. A task is given as many
// items at once as it can use, at most a group.
//
// A loop costs one atomic counter: threads claim chunks by counting down what remains, so a
// batch too small to share wakes nobody. The counter is split by NUMA node: a thread works on
// its own node's items first, and helps the others when those are gone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "topology.hpp"

namespace headrace {

// The system refused a thread.
struct TooFewThreads : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Workers {
 public:
  using Loop = void (*)(void* self, int first, int last);             // items [first, last)
  using Queue = void (*)(void* self, const int* items, int count);
  using Milliseconds = std::chrono::milliseconds;

  // pin_from: the first core (counted over all nodes) to which threads are pinned; -1 pins them to nodes only. Throws
  // TooFewThreads, and then leaves no thread behind.
  Workers(int threads, int queue_capacity, const Topology& topology, int pin_from, int group = 1);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Who works on a loop: the caller, who takes part at once, and helpers if it is worth waking them; only helpers; or
  // only helpers, each on its own node's items.
  enum class Who { caller_too, helpers, helpers_at_home };

  // Begins a loop over [0, count). One loop runs at a time: call it only when not busy.
  void start(int count, Loop task, void* self, Who who);

  // Returns whether items of the loop are still to be done.
  bool busy() const { return undone_.load(std::memory_order_acquire) != 0; }

  // Works on the loop until nothing is left to claim.
  void take_part();

  // Waits until the loop's last item is done, at most so long; returns whether it is.
  bool wait_done(Milliseconds patience);

  // Says what is done with the queue's items; call it once, before the first push.
  void serve_queue(Queue task, void* self);

  // Queues items; at most queue_capacity may be unfinished.
  void push(const int* items, int count);

  // Tasks call it, and threads that wait for the work of tasks. A caller whose core is idle anyway looks so many times
  // before it sleeps.
  void announce();
  template <class Done>
  bool wait_until(Done done, Milliseconds patience, int looks = 0);

  // The number of NUMA nodes on which our threads run.
  int nodes() const { return static_cast<int>(parts_.size()); }
  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  // One node's share of the loop, on a cache line of its own.
  struct alignas(64) Part {
    std::atomic<std::int64_t> remaining{0};
    int first = 0, last = 0;
  };

  void hire(int threads, const Topology& topology, int pin_from);
  void dismiss();
  void wake(int wanted);
  void serve(int home, std::vector<int> cores, int looks);
  bool work_on_loop(int home);
  bool work_on_part(Part& part);
  bool work_on_queue(std::vector<int>& items);
  void take(std::vector<int>& items);

  int group_;
  std::uint64_t cores_ = 0;

  // The loop; written before `remaining`, read after it.
  std::vector<Part> parts_;
  Loop loop_task_ = nullptr;
  void* loop_self_ = nullptr;
  std::atomic<int> chunk_{1};
  std::atomic<bool> stay_home_{false};
  alignas(64) std::atomic<int> undone_{0};  // apart from what threads read for each chunk

  // The queue.
  alignas(64) std::vector<int> queue_;
  Queue queue_task_ = nullptr;
  void* queue_self_ = nullptr;
  std::uint64_t head_ = 0, tail_ = 0;
  std::uint64_t free_;  // threads that work on none of its items
  std::mutex queue_mutex_;

  // Threads that sleep, and the conditions they sleep on.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // grows whenever there is new work
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable progress_;

  std::vector<std::thread> threads_;
};

template <class Done>
bool Workers::wait_until(Done done, Milliseconds patience, int looks) {
  for (int i = 0; i < looks; ++i) {
    if (done()) return true;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex_);
  return progress_.wait_for(lock, patience, done);
}

}  // namespace headrace
