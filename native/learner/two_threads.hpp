// Work in two parts, which have nothing in common that either writes.
#pragma once

#include <thread>

namespace headrace::learner {
namespace {

// work(0) and work(1), side by side if there may be two threads
template <class Work>
inline void each_of_two(bool threads, Work work) {
  if (!threads) {
    work(0), work(1);
    return;
  }
  std::thread other([&] { work(1); });
  work(0);
  other.join();
}

}  // namespace
}  // namespace headrace::learner
