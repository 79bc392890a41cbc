#include "workers.hpp"

#include <algorithm>
#include <string>
#include <system_error>

namespace headrace {
namespace {

// long enough that a thread is still awake when the next batch follows at once, short enough
// that a thread with nothing to do gives its core away
constexpr int kSpins = 200;

}  // namespace

Workers::Workers(int threads, int queue_capacity, const Topology& topology, int pin_from)
    : parts_(std::clamp<std::size_t>(static_cast<std::size_t>(threads), 1, topology.nodes.size())),
      queue_(static_cast<std::size_t>(queue_capacity)) {
  try {
    hire(threads, topology, pin_from);
  } catch (const std::system_error& refused) {
    const int started = this->threads();
    dismiss();
    throw TooFewThreads("the system started " + std::to_string(started) + " of " + std::to_string(threads) +
                        " threads: " + refused.what());
  } catch (...) {
    dismiss();
    throw;
  }
}

Workers::~Workers() { dismiss(); }

void Workers::hire(int threads, const Topology& topology, int pin_from) {
  std::vector<int> all;
  for (const auto& node : topology.nodes) all.insert(all.end(), node.begin(), node.end());

  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    int home = i % nodes();
    std::vector<int> cores;
    if (pin_from >= 0)
      cores = {all[static_cast<std::size_t>(pin_from + i) % all.size()]};
    else if (nodes() > 1)
      cores = topology.nodes[static_cast<std::size_t>(home)];
    threads_.emplace_back(&Workers::serve, this, home, std::move(cores));
  }
}

void Workers::dismiss() {
  stopping_ = true;
  ++epoch_;
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::start(int count, Task task, void* self, Who who) {
  loop_task_ = task;
  loop_self_ = self;
  stay_home_.store(who == Who::helpers_at_home, std::memory_order_relaxed);
  chunk_.store(std::clamp(count / ((threads() + 1) * 16), 1, 64), std::memory_order_relaxed);
  undone_.store(count, std::memory_order_relaxed);
  auto n = static_cast<std::int64_t>(parts_.size());
  for (std::int64_t i = 0; i < n; ++i) {
    Part& part = parts_[static_cast<std::size_t>(i)];
    part.first = static_cast<int>(count * i / n);
    part.last = static_cast<int>(count * (i + 1) / n);
  }
  // a late thread may still count an old loop down; it sees nothing left, or this loop's items
  for (Part& part : parts_) part.remaining.store(part.last - part.first, std::memory_order_release);
  if (count == 1 && who == Who::caller_too) return;
  ++epoch_;
  epoch_.notify_all();
}

void Workers::take_part() { work_on_loop(0); }

bool Workers::wait_done(Milliseconds patience) {
  return wait_until([this] { return undone_.load(std::memory_order_acquire) == 0; }, patience, 2 * kSpins);
}

void Workers::serve_queue(Task task, void* self) {
  queue_task_ = task;
  queue_self_ = self;
}

void Workers::push(const int* items, int count) {
  {
    std::lock_guard lock(queue_mutex_);
    for (int i = 0; i < count; ++i) queue_[tail_++ % queue_.size()] = items[i];
  }
  ++epoch_;
  epoch_.notify_all();
}

void Workers::announce() {
  { std::lock_guard lock(mutex_); }
  progress_.notify_all();
}

void Workers::serve(int home, std::vector<int> cores) {
  if (!cores.empty()) pin_this_thread(cores);
  while (true) {
    // before anything else is looked at: what changes after this wakes the wait below
    auto seen = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    bool worked = work_on_loop(home);
    worked |= work_on_queue();
    if (worked) continue;
    for (int spin = 0; spin < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++spin)
      std::this_thread::yield();
    epoch_.wait(seen, std::memory_order_acquire);
  }
}

bool Workers::work_on_loop(int home) {
  bool worked = work_on_part(parts_[static_cast<std::size_t>(home)]);
  for (int away = 1; away < nodes(); ++away) {
    Part& part = parts_[static_cast<std::size_t>((home + away) % nodes())];
    // a quick look first, so that idle threads do not count everybody's counters down
    if (part.remaining.load(std::memory_order_acquire) > 0 && !stay_home_.load(std::memory_order_relaxed)) worked |= work_on_part(part);
  }
  return worked;
}

bool Workers::work_on_part(Part& part) {
  bool worked = false;
  while (part.remaining.load(std::memory_order_acquire) > 0) {
    int chunk = chunk_.load(std::memory_order_relaxed);
    auto left = part.remaining.fetch_sub(chunk, std::memory_order_acq_rel);
    if (left <= 0) break;
    worked = true;
    int first = part.last - static_cast<int>(left);
    int last = std::min(first + chunk, part.last);
    for (int item = first; item < last; ++item) loop_task_(loop_self_, item);
    if (undone_.fetch_sub(last - first, std::memory_order_acq_rel) == last - first) announce();
  }
  return worked;
}

bool Workers::work_on_queue() {
  bool worked = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    int item;
    {
      std::lock_guard lock(queue_mutex_);
      if (head_ == tail_) break;
      item = queue_[head_++ % queue_.size()];
    }
    queue_task_(queue_self_, item);
    worked = true;
  }
  return worked;
}

}  // namespace headrace
