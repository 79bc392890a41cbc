// The limit against which a pool is measured: emulators that step and do nothing else.
#pragma once

#include <cstdint>
#include <filesystem>

namespace headrace::atari {

struct BareRun {
  std::int64_t steps;    // the steps of all threads; each is frame_skip frames
  double seconds;
};

// Each of num_threads threads has one emulator, which takes new random actions at every step and is reset when its game
// is over, for so many seconds. It is the emulator on which AtariEnv is built, through its public interface, with our
// machine or, if `original`, without any code of ours.
BareRun bare_emulator(const std::filesystem::path& rom, int num_threads, double seconds, std::uint64_t seed,
                      int frame_skip, bool original = false);

}  // namespace headrace::atari
