// Our machine beside the emulator's on programs that no game contains: every opcode, documented or not, from random
// registers and memory, one instruction at a time; random programs; and programs that write random values into random
// registers of the picture chip all over the picture.
//
//   test_atari_fuzz ROMS [rounds] [seed]     rounds of each kind for each kind of cartridge
//
// A cartridge of the emulator's games lends its kind of memory; its contents are overwritten. Whole saved states and
// both pictures must be equal after every instruction or frame. Without cartridges the program returns 77.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../atari/workbench.hpp"
#include "ale/emucore/System.hxx"
#include "ale/emucore/TIA.hxx"

using namespace headrace::atari;

namespace {

constexpr int kSkipped = 77, kWidth = 160, kBank = 0x1000;
constexpr unsigned kBefore = 8, kAfter = 4;   // instructions around the one that is tested
constexpr int kLongest = 400;                 // instructions of a random program
constexpr unsigned kPicture = 0xf100;         // below it some cartridges have memory

// Cartridges: 4 KB; banks switched by addresses; by an address's own bits; in quarters; with memory; with a device.
constexpr const char* kGames[] = {"alien", "asteroids", "robotank", "tutankham", "elevator_action", "pitfall2"};

using Program = std::vector<std::uint8_t>;

class Machine : public Workbench {
 public:
  using Workbench::Workbench;

  void frame() { system().tia().update(); }
  std::string state() { return ale_.cloneState(true).serialize(); }

  // Both frames, without the three pixels after the last that was drawn: the emulator writes four at a time, hence some
  // in advance, which are drawn again.
  std::vector<std::uint8_t> pictures() {
    const auto n = ale_.getScreen().arraySize();
    std::vector<std::uint8_t> both(tia().currentFrameBuffer(), tia().currentFrameBuffer() + n);
    const std::size_t at = drawn();
    for (std::size_t i = at; i < std::min<std::size_t>(at + 3, n); ++i) both[i] = 0;
    both.insert(both.end(), tia().previousFrameBuffer(), tia().previousFrameBuffer() + n);
    return both;
  }

 private:
  std::size_t drawn() {   // pixels of this frame
    const auto text = state();
    std::array<std::int32_t, 5>
        clocks{};  // the frame's beginning, the picture's beginning and end, the last clock that was drawn
    std::memcpy(clocks.data(), text.data() + text.find("TIA", text.find("M6502Low")) + 3, sizeof clocks);
    const int since = std::max(0, clocks[3] - clocks[1]);
    return static_cast<std::size_t>(since / 228 * kWidth + std::max(0, since % 228 - 68));
  }

  ale::stella::TIA& tia() { return system().tia(); }
};

std::optional<std::string> difference(Machine& ours, Machine& original) {
  const auto mine = ours.pictures(), theirs = original.pictures();
  if (mine != theirs) {
    const auto at = std::mismatch(mine.begin(), mine.end(), theirs.begin()).first - mine.begin();
    return "line " + std::to_string(at / kWidth) + ", pixel " + std::to_string(at % kWidth) + " is " +
           std::to_string(mine[at]) + ", not " + std::to_string(theirs[at]);
  }
  const auto a = ours.state(), b = original.state();
  if (a == b) return std::nullopt;
  return "saved state: byte " +
         std::to_string(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin()) + " of " +
         std::to_string(a.size());
}

bool stops(unsigned opcode) { return (opcode & 0x1f) == 0x12 || (opcode & 0x9f) == 0x02; }

struct Fuzzer {
  std::mt19937 random;

  unsigned below(unsigned n) { return random() % n; }
  std::uint8_t byte() { return static_cast<std::uint8_t>(random()); }
  std::uint8_t running() {   // never an opcode that stops the processor
    std::uint8_t value = byte();
    while (stops(value)) value = byte();
    return value;
  }

  std::array<std::uint8_t, 128> ram() {
    std::array<std::uint8_t, 128> bytes{};
    for (auto& value : bytes) value = below(4) ? byte() : static_cast<std::uint8_t>(below(0x40));
    return bytes;
  }

  // Every bank is alike, so that no switch leads out of the program; it begins at `entry`.
  Program cartridge(std::size_t size, const Program& code, unsigned entry) {
    Program bank(kBank);
    for (auto& value : bank) value = running();
    std::copy(code.begin(), code.end(), bank.begin() + (entry & 0xfff));
    for (int quarter = 0x3fc; quarter < kBank; quarter += 0x400) {
      if (code.size() + (entry & 0xfff) > static_cast<unsigned>(quarter) && (entry & 0xfff) < quarter + 2u &&
          quarter != 0xffc)
        continue;
      bank[quarter] = static_cast<std::uint8_t>(entry), bank[quarter + 1] = static_cast<std::uint8_t>(entry >> 8);
    }
    Program whole(size);
    for (std::size_t i = 0; i < size; ++i) whole[i] = bank[i % kBank];
    return whole;
  }

  // Random registers and flags, then one instruction.
  Program one(unsigned opcode) {
    Program code = {0xa2, byte(), 0x9a, 0xa9, byte(), 0x48, 0xa9, byte(), 0xa2, byte(), 0xa0, byte(), 0x28};
    code.push_back(static_cast<std::uint8_t>(opcode));
    code.push_back(byte());
    code.push_back(below(2) ? byte() : static_cast<std::uint8_t>(below(3)));   // often memory or a chip
    return code;
  }

  // A frame begins properly and is then full of writes, at any time of a line.
  Program picture() {
    Program code = {0xa9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02, 0xa9, 0x00, 0x85, 0x00, 0x85, 0x01};
    const unsigned wait = 2 + below(30);
    while (code.size() < 3000) {
      if (below(wait) == 0) {
        code.insert(code.end(), {0x85, 0x02});
      } else if (const unsigned kind = below(16); kind < 11) {
        const auto reg = static_cast<std::uint8_t>(3 + below(0x2d - 3));   // neither VSYNC nor VBLANK nor WSYNC
        code.insert(code.end(), {0xa9, byte(), 0x85, reg});
      } else if (kind < 13) {
        code.insert(code.end(),
                    {0xa5, static_cast<std::uint8_t>(below(16)), 0x85, static_cast<std::uint8_t>(0x80 + below(64))});
      } else if (kind < 15) {
        for (unsigned i = below(12); i > 0; --i) code.push_back(0xea);
      } else if (below(8) == 0) {
        code.insert(code.end(), {0xa9, byte(), 0x85, 0x01});
      }
    }
    code.insert(code.end(), {0x4c, kPicture & 0xff, kPicture >> 8});
    return code;
  }
};

struct Counts {
  long instructions = 0, programs = 0, pictures = 0, different = 0;
};

bool report(const char* game, const std::string& what, Machine& ours, Machine& original, Counts& counts) {
  const auto found = difference(ours, original);
  if (!found) return true;
  ++counts.different;
  std::printf("DIFFERENT %s, %s, after opcode %02x: %s\n", game, what.c_str(), original.registers().last,
              found->c_str());
  return false;
}

// An opcode at a place where its operands, or a branch, may cross a page.
bool opcode(const char* game, unsigned opcode, Fuzzer& fuzzer, Machine& ours, Machine& original, Counts& counts) {
  const unsigned mirrors[] = {0x1000, 0xf000, 0xd000}, entry = mirrors[fuzzer.below(3)] | (0x10 + fuzzer.below(0xf80));
  const auto code = fuzzer.one(opcode);
  const auto program = fuzzer.cartridge(ours.size(), code, entry);
  const auto ram = fuzzer.ram();
  for (Machine* machine : {&ours, &original}) machine->start(program, ram);
  char name[32];
  std::snprintf(name, sizeof name, "opcode %02x", opcode);
  for (unsigned i = 0; i <= kBefore + kAfter; ++i) {
    for (Machine* machine : {&ours, &original}) machine->instructions(1);
    if (i >= kBefore && !report(game, name, ours, original, counts)) return false;
    ++counts.instructions;
  }
  return true;
}

// Random bytes as a program, which sooner or later runs into the chips' registers, too.
bool program(const char* game, Fuzzer& fuzzer, Machine& ours, Machine& original, Counts& counts) {
  const auto bytes = fuzzer.cartridge(ours.size(), {fuzzer.running()}, 0xf000 + fuzzer.below(0xf00));
  const auto ram = fuzzer.ram();
  for (Machine* machine : {&ours, &original}) machine->start(bytes, ram);
  ++counts.programs;
  for (int i = 0; i < kLongest; ++i, ++counts.instructions) {
    for (Machine* machine : {&ours, &original}) machine->instructions(1);
    if (i % 16 == 15 && !report(game, "random program", ours, original, counts)) return false;
  }
  return report(game, "random program", ours, original, counts);
}

bool picture(const char* game, Fuzzer& fuzzer, Machine& ours, Machine& original, Counts& counts) {
  const auto bytes = fuzzer.cartridge(ours.size(), fuzzer.picture(), kPicture);
  const auto ram = fuzzer.ram();
  for (Machine* machine : {&ours, &original}) machine->start(bytes, ram);
  for (int frame = 0; frame < 3; ++frame, ++counts.pictures) {
    ours.frame(), original.frame();
    if (!report(game, "random picture, frame " + std::to_string(frame), ours, original, counts)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || !std::filesystem::is_directory(argv[1])) {
    std::puts("skipped: no cartridges");
    return kSkipped;
  }
  ale::Logger::setMode(ale::Logger::Error);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
  const auto seed = static_cast<std::uint32_t>(argc > 3 ? std::atoi(argv[3]) : 0);
  Counts counts;
  for (const char* game : kGames) {
    Fuzzer fuzzer{std::mt19937(seed)};
    const auto rom = std::filesystem::path(argv[1]) / (std::string(game) + ".bin");
    auto ours = std::make_unique<Machine>(rom, false), original = std::make_unique<Machine>(rom, true);
    auto renew = [&](bool well) {   // after a difference, all later frames would differ
      if (!well) ours = std::make_unique<Machine>(rom, false), original = std::make_unique<Machine>(rom, true);
    };
    for (int round = 0; round < rounds; ++round) {
      for (unsigned code = 0; code < 256; ++code) renew(opcode(game, code, fuzzer, *ours, *original, counts));
      for (int i = 0; i < 20; ++i) renew(program(game, fuzzer, *ours, *original, counts));
      for (int i = 0; i < 10; ++i) renew(picture(game, fuzzer, *ours, *original, counts));
    }
  }
  std::printf("%ld instructions, %ld programs, %ld frames compared, %ld different\n", counts.instructions,
              counts.programs, counts.pictures, counts.different);
  return counts.different != 0;
}
