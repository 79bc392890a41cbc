// The machine of our own beside the emulator's: every cartridge in both, frame by frame, for as many frames as
// asked. Pictures, memory, rewards, lives, collisions and cycles must be equal after each frame, whole saved
// states after every 40th; and each machine goes on from states of the other.
//
//   test_atari_machine ROMS [frames] [game …]      a game's name may end in :MODE:DIFFICULTY
//   test_atari_machine ROMS modes [frames] [game …]  every mode and difficulty of every game, or of these
//   test_atari_machine ROMS time [frames] [game …] processor time of both, in turns
//   test_atari_machine ROMS ours|original frames game    one of them alone, for profilers
//
// Without cartridges it answers 77, which ctest reports as skipped.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <random>
#include <string>

#include "../atari/boot_cache.hpp"
#include "../atari/console.hpp"

using namespace headrace;
using namespace headrace::atari;

namespace {

constexpr int kSkipped = 77, kWidth = 160;
constexpr int kCompareStates = 40, kSwapStates = 1000;

// play that visits more of a game than chance alone: presses held for a while, pauses, and chance
class Player {
 public:
  Player(std::vector<ale::Action> actions, std::uint32_t seed) : actions_(std::move(actions)), random_(seed) {}

  ale::Action next() {
    if (left_-- <= 0) {
      style_ = static_cast<int>(random_() % 8);
      left_ = 20 + static_cast<int>(random_() % 200);
      held_ = any();
    }
    return style_ < 4 ? any() : style_ < 7 ? held_ : ale::PLAYER_A_NOOP;
  }

 private:
  ale::Action any() { return actions_[random_() % actions_.size()]; }

  std::vector<ale::Action> actions_;
  std::mt19937 random_;
  int style_ = 0, left_ = 0;
  ale::Action held_ = ale::PLAYER_A_NOOP;
};

std::vector<std::byte> saved(const Console& console) {
  std::vector<std::byte> blob;
  Writer writer(blob);
  console.save(writer);
  return blob;
}

// the first thing that differs, if any
std::optional<std::string> difference(Console& ours, Console& original) {
  char text[200];
  const std::size_t pixels = static_cast<std::size_t>(ours.height()) * static_cast<std::size_t>(ours.width());
  if (std::memcmp(ours.screen(), original.screen(), pixels) != 0) {
    const auto at = std::mismatch(ours.screen(), ours.screen() + pixels, original.screen()).first - ours.screen();
    std::snprintf(text, sizeof text, "screen: line %d, pixel %d is %02x, not %02x", static_cast<int>(at / kWidth),
                  static_cast<int>(at % kWidth), ours.screen()[at], original.screen()[at]);
    return text;
  }
  for (std::size_t i = 0; i < Console::kRam; ++i)
    if (ours.ram()[i] != original.ram()[i]) {
      std::snprintf(text, sizeof text, "RAM: %02zx is %02x, not %02x", 0x80 + i, ours.ram()[i], original.ram()[i]);
      return text;
    }
  const auto mine = ours.trace(), theirs = original.trace();
  if (mine != theirs) {
    std::snprintf(text, sizeof text, "cycles %u, not %u; collisions %04x, not %04x", mine.cycles, theirs.cycles,
                  mine.collisions, theirs.collisions);
    return text;
  }
  if (ours.lives() != original.lives() || ours.over() != original.over()) return "lives or the game's end";
  return std::nullopt;
}

struct Run {
  std::string game;
  int mode = -1, difficulty = -1;
};

Run parsed(const std::string& text) {
  Run run{text};
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    run.game = text.substr(0, colon);
    std::sscanf(text.c_str() + colon, ":%d:%d", &run.mode, &run.difficulty);
  }
  return run;
}

bool alike(const std::filesystem::path& roms, const Run& run, int frames) {
  Game game{roms / (run.game + ".bin"), run.mode, run.difficulty};
  Console ours(game, nullptr);
  game.original = true;
  Console original(game, nullptr);
  int frame = 0, reward = 0;
  auto same = [&](bool whole) {
    auto found = difference(ours, original);
    if (!found && whole && saved(ours) != saved(original)) {
      const auto a = saved(ours), b = saved(original);
      const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
      found = "saved state: byte " + std::to_string(at) + " of " + std::to_string(a.size());
    }
    if (found)
      std::printf("DIFFERENT %s mode %d difficulty %d, frame %d: %s\n", run.game.c_str(), run.mode, run.difficulty,
                  frame, found->c_str());
    return !found;
  };
  ours.power_on(1), original.power_on(1);
  ours.reset(), original.reset();
  if (!same(true)) return false;
  Player player(original.actions(true), 7);
  for (frame = 1; frame <= frames; ++frame) {
    const auto action = player.next();
    const int mine = ours.act(action), theirs = original.act(action);
    reward += theirs;
    if (mine != theirs) {
      std::printf("DIFFERENT %s, frame %d: reward %d, not %d\n", run.game.c_str(), frame, mine, theirs);
      return false;
    }
    if (!same(frame % kCompareStates == 0)) return false;
    if (frame % kSwapStates == 0) {
      const auto a = saved(ours), b = saved(original);
      Reader from_ours(a), from_original(b);
      ours.load(from_original), original.load(from_ours);
    }
    if (original.over()) {
      ours.reset(), original.reset();
      if (!same(true)) return false;
    }
  }
  std::printf("equal %s mode %d difficulty %d: %d frames, reward %d\n", run.game.c_str(), run.mode, run.difficulty,
              frames, reward);
  std::fflush(stdout);
  return true;
}

std::vector<Run> every(const std::filesystem::path& roms, bool modes, const std::vector<Run>& wanted) {
  std::vector<Run> runs;
  for (const auto& entry : std::filesystem::directory_iterator(roms)) {
    if (entry.path().extension() != ".bin" || !ale::ALEInterface::isSupportedROM(entry.path())) continue;
    const std::string name = entry.path().stem();
    if (!wanted.empty() && std::ranges::find(wanted, name, &Run::game) == wanted.end()) continue;
    if (!modes) {
      runs.push_back({name});
      continue;
    }
    const Console console({entry.path()}, nullptr);
    for (const auto mode : console.modes())
      for (const auto difficulty : console.difficulties())
        runs.push_back({name, static_cast<int>(mode), static_cast<int>(difficulty)});
  }
  std::ranges::sort(runs, {}, [](const Run& run) { return std::tuple(run.game, run.mode, run.difficulty); });
  return runs;
}

// so many frames as agents play them; seconds of processor time
[[gnu::noinline]] double played(Console& console, int frames, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto actions = console.actions(false);
  const auto begin = std::clock();
  for (int frame = 0; frame < frames; frame += 4) {
    const auto action = actions[random() % actions.size()];
    for (int i = 0; i < 4 && !console.over(); ++i) console.act(action);
    if (console.over()) console.reset();
  }
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

void timed(const std::filesystem::path& roms, const std::vector<Run>& runs, int frames) {
  double sum = 0;
  for (const Run& run : runs) {
    Game game{roms / (run.game + ".bin"), run.mode, run.difficulty};
    const auto boots = std::shared_ptr<BootCache>();
    Console ours(game, boots);
    game.original = true;
    Console original(game, boots);
    ours.power_on(1), original.power_on(1);
    ours.reset(), original.reset();
    double mine = 0, theirs = 0;
    constexpr int turns = 6;
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
      theirs += played(original, frames / turns, turn);
      mine += played(ours, frames / turns, turn);
    }
    sum += std::log(theirs / mine);
    std::printf("%-20s %8.1f µs a frame, %8.1f of the original: %.2f times\n", run.game.c_str(), 1e6 * mine / frames,
                1e6 * theirs / frames, theirs / mine);
    std::fflush(stdout);
  }
  std::printf("geometric mean: %.3f times\n", std::exp(sum / static_cast<double>(runs.size())));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || !std::filesystem::is_directory(argv[1])) {
    std::puts("skipped: no cartridges");
    return kSkipped;
  }
  const std::filesystem::path roms = argv[1];
  const std::string what = argc > 2 ? argv[2] : "";
  const bool modes = what == "modes", time = what == "time", alone = what == "ours" || what == "original";
  int next = modes || time || alone ? 3 : 2, frames = 100;
  if (argc > next) frames = std::atoi(argv[next++]);
  std::vector<Run> runs;
  for (; next < argc; ++next) runs.push_back(parsed(argv[next]));
  if (modes || runs.empty()) runs = every(roms, modes, runs);
  if (time) return timed(roms, runs, frames), 0;
  if (alone) {
    Console console({roms / (runs[0].game + ".bin"), -1, -1, 0, what == "original"}, nullptr);
    console.power_on(1);
    console.reset();
    return played(console, frames, 0) < 0;
  }
  int bad = 0;
  for (const Run& run : runs) bad += !alike(roms, run, frames);
  std::printf("%zu runs, %d different\n", runs.size(), bad);
  return bad != 0;
}
