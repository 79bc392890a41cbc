// Work in two parts, which have nothing in common that either writes.
#pragma once

#include <barrier>
#include <thread>

namespace headrace::learner {
namespace {

// work(0) and work(1) of each work, side by side if there may be two threads; both end before the next work begins
template <class... Work>
inline void each_of_two(bool threads, Work... works) {
  if (!threads) {
    ((works(0), works(1)), ...);
    return;
  }
  std::barrier both(2);
  const auto run = [&](int k) { ((works(k), both.arrive_and_wait()), ...); };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

}  // namespace
}  // namespace headrace::learner
