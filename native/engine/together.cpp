#include "together.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "workers.hpp"

namespace headrace {
namespace {

constexpr int kMostThreads = 1024;

enum Word { wait, go, leave };

}  // namespace

void check_together(int threads) {
  if (threads < 1 || threads > kMostThreads)
    throw BadThreads("num_threads must be an integer in [1, " + std::to_string(kMostThreads) + "], not " +
                     std::to_string(threads));
}

double run_together(int threads, const std::function<void(int)>& run) {
  check_together(threads);
  using Clock = std::chrono::steady_clock;
  std::atomic<Word> word{wait};
  std::vector<std::jthread> all;  // the threads end before the clock is read
  auto say = [&](Word said) { word = said, word.notify_all(); };
  try {
    for (int i = 0; i < threads; ++i)
      all.emplace_back([&, i] {
        word.wait(wait);
        if (word == go) run(i);
      });
  } catch (const std::system_error& refused) {
    say(leave);
    throw TooFewThreads("the system started " + std::to_string(all.size()) + " of " + std::to_string(threads) +
                        " threads: " + refused.what());
  }
  const auto begin = Clock::now();
  say(go);
  all.clear();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace headrace
