#include "bare_emulator.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "ale/ale_interface.hpp"
#include "ale/emucore/Console.hxx"
#include "console.hpp"
#include "engine/random.hpp"
#include "engine/together.hpp"
#include "machine/processor.hpp"

namespace headrace::atari {

BareRun bare_emulator(const std::filesystem::path& rom, int num_threads, double seconds, std::uint64_t seed,
                      int frame_skip, bool original) {
  using Clock = std::chrono::steady_clock;
  check_together(num_threads);
  const Console checked({rom}, nullptr);   // refuses a bad ROM, with which the emulator alone would end the process
  std::vector<std::unique_ptr<ale::ALEInterface>> emulators;  // made in this thread, so that errors reach the caller
  for (int i = 0; i < num_threads; ++i) {
    auto& emulator = *emulators.emplace_back(std::make_unique<ale::ALEInterface>(false));
    emulator.setFloat("repeat_action_probability", 0);
    emulator.setInt("random_seed", static_cast<int>(seed) + i);
    emulator.loadROM(rom);
    if (!original) install(emulator.theOSystem->console().system());
  }
  std::atomic<std::int64_t> steps{0};
  const double taken = run_together(num_threads, [&](int i) {
    ale::ALEInterface& emulator = *emulators[i];
    const auto actions = emulator.getMinimalActionSet();
    NumpyGenerator random(seed + i);
    std::int64_t done = 0;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    do {
      for (int k = 0; k < 16; ++k, ++done) {  // a look at the clock costs time as well
        const auto action = actions[random.integers(0, static_cast<std::int64_t>(actions.size()))];
        for (int frame = 0; frame < frame_skip && !emulator.game_over(false); ++frame) emulator.act(action);
        if (emulator.game_over(false)) emulator.reset_game();
      }
    } while (Clock::now() < end);
    steps += done;
  });
  return {steps, taken};
}

}  // namespace headrace::atari
