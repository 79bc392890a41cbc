// Work in two parts, which have nothing in common that either writes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <thread>

namespace headrace::learner {
namespace {

// A second thread beside one that asks for it: it is kept until that one ends, and sleeps between calls.
class SecondThread {
 public:
  // the calling thread's own; a process that was forked from one with such a thread begins another
  static SecondThread& mine() {
    thread_local Owner owner;
    if (owner.second == nullptr || owner.second->process_ != getpid()) owner.second = new SecondThread;
    return *owner.second;
  }

  // work() in the second thread, beside what the caller does until wait()
  template <class Work>
  void start(const Work& work) {
    work_ = &work, call_ = [](const void* each) { (*static_cast<const Work*>(each))(); };
    asked_.fetch_add(1, std::memory_order_release);
    asked_.notify_one();
  }

  void wait() const {
    const std::uint32_t asked = asked_.load(std::memory_order_relaxed);
    for (std::uint32_t done; (done = done_.load(std::memory_order_acquire)) != asked;)
      done_.wait(done, std::memory_order_acquire);
  }

 private:
  struct Owner {
    SecondThread* second = nullptr;
    ~Owner() {
      if (second == nullptr || second->process_ != getpid()) return;  // of a forked process the thread is its parent's
      second->call_ = nullptr;
      second->asked_.fetch_add(1, std::memory_order_release);
      second->asked_.notify_one();
      second->thread_.join();
      delete second;
    }
  };

  void run() {
    for (std::uint32_t seen = 0;;) {
      for (; asked_.load(std::memory_order_acquire) == seen;) asked_.wait(seen, std::memory_order_acquire);
      if (call_ == nullptr) return;
      call_(work_);
      done_.store(++seen, std::memory_order_release);
      done_.notify_one();
    }
  }

  const void* work_ = nullptr;
  void (*call_)(const void*) = nullptr;
  std::atomic<std::uint32_t> asked_{0}, done_{0};
  const pid_t process_ = getpid();
  std::thread thread_{[this] { run(); }};
};

// work(0) and work(1) of each work, side by side if there may be two threads; both end before the next work begins
template <class... Work>
inline void each_of_two(bool threads, Work... works) {
  if (!threads) {
    ((works(0), works(1)), ...);
    return;
  }
  std::barrier both(2);
  const auto run = [&](int k) { ((works(k), both.arrive_and_wait()), ...); };
  const auto other = [&] { run(1); };
  SecondThread& second = SecondThread::mine();
  second.start(other);
  run(0);
  second.wait();
}

}  // namespace
}  // namespace headrace::learner
