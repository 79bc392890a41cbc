#include "workers.hpp"

#include <algorithm>
#include <string>
#include <system_error>

namespace headrace {
namespace {

// A thread looks so long that it is still awake when the next batch follows at once, and so short that it gives its
// core away when nothing is to do.
constexpr int kSpins = 200;

}  // namespace

Workers::Workers(int threads, int queue_capacity, const Topology& topology, int pin_from, int group)
    : group_(group),
      parts_(std::clamp<std::size_t>(static_cast<std::size_t>(threads), 1, topology.nodes.size())),
      queue_(static_cast<std::size_t>(queue_capacity)),
      free_(static_cast<std::uint64_t>(threads)) {
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

  cores_ = all.size();
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    int home = i % nodes();
    std::vector<int> cores;
    if (pin_from >= 0) cores = {all[static_cast<std::size_t>(pin_from + i) % all.size()]};
    else if (nodes() > 1) cores = topology.nodes[static_cast<std::size_t>(home)];
    // more threads than cores would take these from one another by looking
    const int looks = static_cast<std::size_t>(i) < cores_ ? kSpins : 0;
    threads_.emplace_back(&Workers::serve, this, home, std::move(cores), looks);
  }
}

void Workers::dismiss() {
  stopping_ = true;
  ++epoch_;
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::start(int count, Loop task, void* self, Who who) {
  loop_task_ = task;
  loop_self_ = self;
  stay_home_.store(who == Who::helpers_at_home, std::memory_order_relaxed);
  const int chunk = std::clamp(count / ((threads() + 1) * 16), 1, 64);
  chunk_.store((chunk + group_ - 1) / group_ * group_, std::memory_order_relaxed);  // whole groups
  undone_.store(count, std::memory_order_relaxed);
  auto n = static_cast<std::int64_t>(parts_.size());
  for (std::int64_t i = 0; i < n; ++i) {
    Part& part = parts_[static_cast<std::size_t>(i)];
    part.first = static_cast<int>(count * i / n);
    part.last = static_cast<int>(count * (i + 1) / n);
  }
  // A late thread may still count an old loop down; it sees nothing left, or the items of this loop.
  for (Part& part : parts_) part.remaining.store(part.last - part.first, std::memory_order_release);
  if (count <= group_ && who == Who::caller_too) return;
  const int step = chunk_.load(std::memory_order_relaxed), chunks = (count + step - 1) / step;
  if (who == Who::helpers_at_home) wake(threads());
  else wake(chunks - (who == Who::caller_too));
}

// Tells threads of new work, and wakes as many as it is for: each works until nothing is left.
void Workers::wake(int wanted) {
  ++epoch_;
  if (wanted >= threads()) epoch_.notify_all();
  else
    for (int i = 0; i < wanted; ++i) epoch_.notify_one();
}

void Workers::take_part() { work_on_loop(0); }

bool Workers::wait_done(Milliseconds patience) {
  return wait_until([this] { return undone_.load(std::memory_order_acquire) == 0; }, patience, 2 * kSpins);
}

void Workers::serve_queue(Queue task, void* self) {
  queue_task_ = task;
  queue_self_ = self;
}

void Workers::push(const int* items, int count) {
  {
    std::lock_guard lock(queue_mutex_);
    for (int i = 0; i < count; ++i) queue_[tail_++ % queue_.size()] = items[i];
  }
  wake(count);
}

void Workers::announce() {
  {
    std::lock_guard lock(mutex_);
  }
  progress_.notify_all();
}

void Workers::serve(int home, std::vector<int> cores, int looks) {
  if (!cores.empty()) pin_this_thread(cores);
  std::vector<int> items;
  while (true) {
    // This is read before anything else: a change after it wakes the wait below.
    auto seen = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    bool worked = work_on_loop(home);
    worked |= work_on_queue(items);
    if (worked) continue;
    for (int look = 0; look < looks && epoch_.load(std::memory_order_acquire) == seen; ++look)
      std::this_thread::yield();
    epoch_.wait(seen, std::memory_order_acquire);
  }
}

bool Workers::work_on_loop(int home) {
  bool worked = work_on_part(parts_[static_cast<std::size_t>(home)]);
  for (int away = 1; away < nodes(); ++away) {
    Part& part = parts_[static_cast<std::size_t>((home + away) % nodes())];
    // A quick look comes first, so that idle threads do not count everybody's counters down.
    if (part.remaining.load(std::memory_order_acquire) > 0 && !stay_home_.load(std::memory_order_relaxed))
      worked |= work_on_part(part);
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
    for (int item = first; item < last; item += group_) loop_task_(loop_self_, item, std::min(item + group_, last));
    if (undone_.fetch_sub(last - first, std::memory_order_acq_rel) == last - first) announce();
  }
  return worked;
}

bool Workers::work_on_queue(std::vector<int>& items) {
  bool worked = false;
  std::unique_lock lock(queue_mutex_);
  while (head_ != tail_ && !stopping_.load(std::memory_order_relaxed)) {
    take(items);
    --free_;
    lock.unlock();
    queue_task_(queue_self_, items.data(), static_cast<int>(items.size()));
    worked = true;
    lock.lock();
    ++free_;
  }
  return worked;
}

// The oldest items: at most a group, and at most this thread's share among the threads that have nothing to do, as far
// as there are cores for them.
void Workers::take(std::vector<int>& items) {
  const auto takers = std::min(free_, cores_), share = (tail_ - head_ + takers - 1) / takers;
  items.resize(std::min<std::uint64_t>(share, static_cast<std::uint64_t>(group_)));
  for (int& item : items) item = queue_[head_++ % queue_.size()];
}

}  // namespace headrace
