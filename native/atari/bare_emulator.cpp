#include "bare_emulator.hpp"

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "console.hpp"
#include "engine/random.hpp"

namespace headrace::atari {

BareRun bare_emulator(const std::filesystem::path& rom, int num_threads, double seconds, std::uint64_t seed,
                      int frame_skip) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::unique_ptr<Console>> consoles;   // made here, so that errors reach the caller
  for (int i = 0; i < num_threads; ++i) {
    consoles.push_back(std::make_unique<Console>(Game{rom}, nullptr));
    consoles.back()->power_on(static_cast<std::uint32_t>(seed) + i);
  }
  std::atomic<std::int64_t> steps{0};
  std::barrier start(num_threads + 1);
  std::vector<std::jthread> threads;
  for (int i = 0; i < num_threads; ++i)
    threads.emplace_back([&, i] {
      Console& console = *consoles[i];
      const auto actions = console.actions(false);
      NumpyGenerator random(seed + i);
      std::int64_t done = 0;
      start.arrive_and_wait();
      const auto end = Clock::now() + std::chrono::duration<double>(seconds);
      do {
        for (int k = 0; k < 16; ++k, ++done) {   // looking at the clock costs time too
          const auto action = actions[random.integers(0, static_cast<std::int64_t>(actions.size()))];
          for (int frame = 0; frame < frame_skip && !console.over(); ++frame) console.act(action);
          if (console.over()) console.reset();
        }
      } while (Clock::now() < end);
      steps += done;
    });
  start.arrive_and_wait();
  const auto begin = Clock::now();
  threads.clear();
  return {steps, std::chrono::duration<double>(Clock::now() - begin).count()};
}

}  // namespace headrace::atari
