// Explains a difference between two machines: its line, and the write into the picture chip that leads to it.
//
// Both run the frame again from the state before it, with a record of all accesses over the chip's bus. If the records
// differ, the first access that differs is named. If a pixel differs, the original runs the frame once more for each
// write before that pixel, without that write: its pixel equals ours if our machine has lost just that write, and
// changes if it follows from the write.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "../atari/console.hpp"
#include "../atari/machine/watch.hpp"

namespace headrace::atari {

using State = std::vector<std::byte>;
using Step = std::function<void(Console&)>;
using Loses = std::function<bool(const Access&)>;   // returns whether a write is lost; null: none is

inline State saved(const Console& console) {
  State blob;
  Writer writer(blob);
  console.save(writer);
  return blob;
}

inline void load(Console& console, const State& state) {
  Reader reader(state);
  console.load(reader);
}

class Recorder final : public Watcher {
 public:
  explicit Recorder(Loses loses = nullptr) : loses_(std::move(loses)) {}
  bool see(const Access& access) override {
    accesses.push_back(access);
    return !(loses_ && access.write && loses_(access));
  }

  std::vector<Access> accesses;

 private:
  Loses loses_;
};

class Diagnosis {
 public:
  // before: the state of both; step: the step to the difference; fault: the one of our machine
  Diagnosis(Console& ours, Console& original, State before, Step step, Loses fault)
      : ours_(ours), original_(original), before_(std::move(before)), step_(std::move(step)) {
    mine_ = recorded(ours_, std::move(fault)), my_picture_ = picture(ours_), my_state_ = saved(ours_);
    theirs_ = recorded(original_, nullptr), their_picture_ = picture(original_), same_ = saved(original_) == my_state_;
  }

  std::string text() {
    if (same_) return "both are equal where the chip is watched, which is on the processor's way around plain memory";
    bool same_accesses = true;
    std::string text = on_the_bus(same_accesses);
    if (const auto pixel = in_the_picture(same_accesses); !pixel.empty()) text += (text.empty() ? "" : "; ") + pixel;
    if (!text.empty()) return text;
    const auto lost = cause(0, std::numeric_limits<int>::max(), 0);
    return "saved states from here on" + (lost.empty() ? "; the last write is [" + latest(theirs_.size()) + "]" : lost);
  }

 private:
  static constexpr int kWidth = 160, kBlank = 68, kTried = 4000;
  static constexpr std::size_t kNamed = 3;
  using Picture = std::vector<std::uint8_t>;

  std::vector<Access> recorded(Console& console, Loses loses) {
    load(console, before_);
    Recorder recorder(std::move(loses));
    const Watch watch(console.system(), recorder);
    step_(console);
    return std::move(recorder.accesses);
  }

  static Picture picture(const Console& console) {
    return {console.screen(), console.screen() + console.height() * console.width()};
  }

  // Returns the last write before this access.
  std::string latest(std::size_t before) const {
    while (before-- > 0)
      if (theirs_[before].write) return theirs_[before].text();
    return "none";
  }

  std::string on_the_bus(bool& same_accesses) const {
    char text[120];
    const std::size_t n = std::min(mine_.size(), theirs_.size());
    for (std::size_t i = 0; i < n; ++i) {
      const Access &a = mine_[i], &b = theirs_[i];
      if (a.text() != b.text()) {
        same_accesses = false;
        return "on the bus: [" + a.text() + "], not [" + b.text() + "], after [" + latest(i) + "]";
      }
      const auto at = std::mismatch(a.memory.begin(), a.memory.end(), b.memory.begin()).first - a.memory.begin();
      if (a.memory != b.memory)
        std::snprintf(text, sizeof text, "memory: %02x is %02x, not %02x", static_cast<int>(0x80 + at), a.memory[at],
                      b.memory[at]);
      else if (a.collisions != b.collisions)
        std::snprintf(text, sizeof text, "collisions: %04x, not %04x", a.collisions, b.collisions);
      else continue;
      return text + (" at [" + b.text()) + "], after [" + latest(i) + "]";
    }
    if (mine_.size() == theirs_.size()) return "";
    same_accesses = false;
    const bool ours = mine_.size() > n;
    return std::string("on the bus: ") + (ours ? "ours" : "the original") + " goes on with [" +
           (ours ? mine_ : theirs_)[n].text() + "], after [" + latest(n) + "]";
  }

  std::string in_the_picture(bool with_cause) {
    if (my_picture_ == their_picture_) return "";
    const auto first = std::mismatch(my_picture_.begin(), my_picture_.end(), their_picture_.begin()).first;
    const auto at = first - my_picture_.begin();
    char text[80];
    const int line = static_cast<int>(at / kWidth), pixel = static_cast<int>(at % kWidth);
    std::snprintf(text, sizeof text, "line %d, pixel %d is %02x, not %02x", line, pixel, my_picture_[at],
                  their_picture_[at]);
    if (!with_cause) return text;
    return text + cause(static_cast<std::size_t>(at), line, kBlank + pixel);
  }

  // Compares the original without one of the writes: it equals ours, its pixel equals ours, or its pixel changes.
  enum Likeness { kOurs, kOursHere, kOther, kSame };

  // The write, or the latest into each of some registers, among the writes before this clock.
  std::string cause(std::size_t at, int line, int clock) {
    std::array<std::vector<std::string>, kSame> found;
    std::array<std::vector<unsigned>, kSame> registers;
    int tried = 0;
    for (std::size_t i = theirs_.size(); i-- > 0 && tried < kTried && found[kOurs].empty();) {
      const Access& write = theirs_[i];
      const bool earlier = write.line < line || (write.line == line && write.clock <= clock);
      if (!write.write || !earlier || is_silent(write.address)) continue;
      ++tried;
      const Likeness like = without(i, at);
      if (like == kSame || std::ranges::count(registers[like], write.address)) continue;
      registers[like].push_back(write.address);
      if (found[like].size() < kNamed) found[like].push_back("[" + write.text() + "]");
    }
    const auto best = std::ranges::find_if(found, [](const auto& texts) { return !texts.empty(); });
    if (best == found.end()) return "";
    std::string text = best == found.begin() ? ", as if this write were lost: " : ", which follows from ";
    for (const auto& one : *best) text += (&one == &best->front() ? "" : ", ") + one;
    return text;
  }

  // Sound, and registers that would change everything after them.
  static bool is_silent(unsigned reg) { return reg == 0x00 || reg == 0x02 || (0x15 <= reg && reg <= 0x1a); }

  Likeness without(std::size_t lost, std::size_t at) {
    load(original_, before_);
    struct Without final : Watcher {
      explicit Without(std::size_t n) : left(n) {}
      bool see(const Access&) override { return left-- != 0; }
      std::size_t left;
    } watcher(lost);
    const Watch watch(original_.system(), watcher);
    step_(original_);
    const Picture now = picture(original_);
    if (saved(original_) == my_state_) return kOurs;
    if (now[at] == their_picture_[at]) return kSame;
    return now[at] == my_picture_[at] ? kOursHere : kOther;
  }

  Console &ours_, &original_;
  State before_, my_state_;
  bool same_ = false;
  Step step_;
  std::vector<Access> mine_, theirs_;
  Picture my_picture_, their_picture_;
};

}  // namespace headrace::atari
