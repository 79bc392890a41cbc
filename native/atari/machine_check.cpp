#include "machine_check.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

namespace headrace::atari {
namespace {

constexpr std::int32_t kTrue = static_cast<std::int32_t>(0xfab1fab2), kFalse = static_cast<std::int32_t>(0xbad1bad2);
constexpr std::int32_t kLarge = 1 << 30;   // larger than any count of a game, and sums do not overflow
constexpr int kClocksPerLine = 228, kBlankClocks = 68, kPixelsPerLine = 160;

void require(bool fits) {
  if (!fits) throw std::runtime_error("saved state is corrupt");
}

// One of the two texts: four bytes make a word, and a text follows its length.
class Words {
 public:
  explicit Words(std::string_view bytes) : left_(bytes) {}

  std::int32_t word() {
    std::int32_t value = 0;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view text() {
    const auto size = word();
    require(size >= 0);
    return bytes(static_cast<std::size_t>(size));
  }

  std::string_view left() const { return left_; }

 private:
  std::string_view bytes(std::size_t n) {
    require(n <= left_.size());
    const auto front = left_.substr(0, n);
    left_.remove_prefix(n);
    return front;
  }

  std::string_view left_;
};

// The words of a std::mt19937 as its operator<< writes them, and the number of them that were drawn.
void check_generator(std::string_view text) {
  constexpr int words = 624;
  for (int i = 0; i <= words; ++i) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(error == std::errc() && value <= (i < words ? std::numeric_limits<std::uint32_t>::max() : words));
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    require(text.empty() == (i == words));
    if (i < words) {
      require(text[0] == ' ');
      text.remove_prefix(1);
    }
  }
}

// Walks through both texts side by side.
class Pair {
 public:
  Pair(std::string_view given, std::string_view own) : given_(given), own_(own) {}

  // Skips a number, which may be any.
  std::int32_t any() { return own_.word(), given_.word(); }
  void any(int n) {
    for (int i = 0; i < n; ++i) any();
  }

  // Checks a number in [low, high].
  std::int32_t in(std::int32_t low, std::int32_t high) {
    const auto value = any();
    require(low <= value && value <= high);
    return value;
  }

  // Checks a number, or a text, that is the same in every state of this console.
  std::int32_t same() {
    const auto value = own_.word();
    require(given_.word() == value);
    return value;
  }
  std::string_view same_text() {
    const auto text = own_.text();
    require(given_.text() == text);
    return text;
  }

  void flag(int n = 1) {
    for (int i = 0; i < n; ++i) {
      const auto value = any();
      require(value == kTrue || value == kFalse);
    }
  }

  void generator() {
    own_.text();
    check_generator(given_.text());
  }

  // Checks a number or a flag, according to our own text.
  void either() {
    const auto mine = Words(own_.left()).word();
    mine == kTrue || mine == kFalse ? flag() : static_cast<void>(in(-kLarge, kLarge));
  }

  Pair nested() { return {given_.text(), own_.text()}; }
  std::string_view own_left() const { return own_.left(); }
  void end() const { require(given_.left().empty() && own_.left().empty()); }

 private:
  Words given_, own_;
};

void check_processor(Pair& state) {
  state.same_text();
  state.any(6);
  state.flag(7);
  state.any();
}

void check_memory_and_timer(Pair& state) {
  state.same_text();
  state.any(state.same());
  state.any();
  const auto shift = state.any();
  require(shift == 0 || shift == 3 || shift == 6 || shift == 10);
  state.any(2);
  state.flag();
  state.any(2);
}

// A frame that was cut short is continued where it was left: clocks and pixels must agree.
void check_clocks(Pair& state, bool partial, long pixels) {
  if (!partial) return state.any(5);
  const auto begin = state.in(1 - kClocksPerLine, 0), first = state.in(begin, kLarge), last = state.in(first, kLarge);
  const auto at = state.in(first, last), left = state.any();
  require(last - first <= 320 * kClocksPerLine);
  const auto line = (at - first) / kClocksPerLine, clock = (at - first) % kClocksPerLine;
  require(left == kClocksPerLine - clock || (clock == 0 && left == 0));
  const long drawn = long{line} * kPixelsPerLine + std::max(0, clock - kBlankClocks);
  require(pixels == drawn || (left == 0 && pixels == drawn + kPixelsPerLine));
}

void check_picture_chip(Pair& state, bool partial, long pixels) {
  state.same_text();
  check_clocks(state, partial, pixels);
  state.any(3);
  state.any(5);   // enabled objects, VSYNC, VBLANK, copies
  state.any(4);   // colours
  state.any(2);   // playfield control
  state.flag(2);
  state.any(5);   // playfield and players
  state.flag(4);
  for (int i = 0; i < 5; ++i) state.in(0, 15);   // motion
  state.flag(5);
  state.any();    // collisions
  for (int i = 0; i < 5; ++i) state.in(0, kPixelsPerLine - 1);   // positions
  state.any(3);
  state.flag(2);
  state.in(0, 3);   // the step of Cosmic Ark's stars
  state.flag();
  state.any();
  state.same_text();   // sound
  state.any(7);
}

void check_list(Pair& state, std::int32_t high = 0) {
  const auto size = state.same();
  for (int i = 0; i < size; ++i) high > 0 ? static_cast<void>(state.in(0, high)) : state.any(1);
}

// The cartridges of games of the Arcade Learning Environment.
void check_cartridge(Pair& state) {
  static const std::map<std::string_view, int> banks = {{"CartridgeF8", 2},   {"CartridgeF6", 4},
                                                        {"CartridgeF4", 8},   {"CartridgeF8SC", 2},
                                                        {"CartridgeF6SC", 4}, {"CartridgeF4SC", 8}};
  const auto name = state.same_text();
  if (name == "Cartridge2K" || name == "Cartridge4K" || name == "CartridgeFE") return;
  if (const auto found = banks.find(name); found != banks.end()) {
    state.in(0, found->second - 1);
    if (name.ends_with("SC")) check_list(state);
  } else if (name == "CartridgeE0") {
    check_list(state, 7);
  } else if (name == "CartridgeDPC") {
    state.in(0, 1);
    check_list(state);             // tops
    check_list(state);             // bottoms
    check_list(state, 0x7ff);      // counters into the picture's data
    check_list(state);             // flags
    state.flag(state.same());
    state.any(3);
  } else {
    throw std::runtime_error("states of a " + std::string(name) + " cannot be checked");
  }
}

// Checks the game's counters; it ends where only the random stream is left.
void check_settings(Pair& state) {
  auto is_last = [](Words own) {
    return own.word() == kTrue && own.left().size() >= 4 &&
           Words(own).word() == static_cast<int>(own.left().size()) - 4;
  };
  while (!is_last(Words(state.own_left()))) state.either();
}

}  // namespace

void check_machine(std::string_view given, std::string_view own, bool partial, long pixels) {
  Pair outer(given, own);
  for (int i = 0; i < 4; ++i) outer.in(0, kLarge);   // paddles, frames
  outer.same();                                      // mode
  outer.same();                                      // difficulty
  auto state = outer.nested();
  state.same_text();   // the game
  state.same_text();   // the system
  state.in(0, kLarge / 3);   // cycles
  state.generator();
  check_processor(state);
  check_memory_and_timer(state);
  check_picture_chip(state, partial, pixels);
  check_cartridge(state);
  check_settings(state);
  state.same();        // whether a random stream follows
  state.generator();
  state.end();
  outer.in(0, kLarge);   // the paddles' ends
  outer.in(0, kLarge);
  outer.end();
}

}  // namespace headrace::atari
