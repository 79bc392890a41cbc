// The console's picture chip, the TIA: our own one in place of the emulator's.
//
// Its registers decide the line's look from now on. Pixels are drawn when something visible is about to change, up to
// that moment, and not at all for the many writes that change nothing. Pixels, their times, and the latches that
// programs read are the emulator's. Between frames the chip's state lies in the emulator's TIA, which starts and ends
// frames and saves and loads it.
//
// Sources are the Stella Programmer's Guide and A. Towers' notes on the TIA's hardware; where the emulator differs from
// these, for better or worse, this chip follows the emulator.
#pragma once

#include <array>
#include <bit>
#include <climits>
#include <cstdint>

#include "compose.hpp"

namespace ale::stella {
class Console;
class Controller;
class TIA;
class TIADebug;
}  // namespace ale::stella

namespace headrace::atari {

// Returns whether the chip answers at an address; it does at many.
constexpr bool in_chip(std::uint32_t address) { return (address & 0x1080) == 0; }

class Chip {
 public:
  static constexpr std::uint32_t kWait = 0x02;  // the register WSYNC

  Chip();

  // Copy the state from the emulator's chip and to it.
  void take(const ale::stella::TIA& tia);
  void give(ale::stella::TIA& tia);

  // Reads or writes a register at the end of so many cycles. A write of WSYNC is a `wait`, which halts the processor
  // until the line's end and returns the cycles then; after_read: the processor's access before was a read.
  std::uint8_t read(std::uint32_t address, std::uint32_t cycles, std::uint8_t bus);
  void write(std::uint32_t address, std::uint8_t value, std::uint32_t cycles);
  std::uint32_t wait(std::uint32_t cycles, bool after_read);

  // Returns whether the picture is complete.
  bool finished() const { return finished_; }

  // Returns the latches, after everything that is due is drawn.
  std::uint16_t collisions() { return draw_to(due_), collisions_; }

 private:
  friend class ale::stella::TIADebug;

  static constexpr int kClocks = 228, kBlank = 68, kComb = 8;
  static constexpr int kNever = INT_MAX;
  static constexpr std::uint32_t kUnknown = UINT32_MAX, kOpen = kUnknown - 1, kCharged = kUnknown - 2;  // paddles

  // The look that an object was given; registers may have changed since.
  struct Shown {
    std::int16_t at = 0;
    std::uint8_t copies = 0, size = 0;
    bool skip_first = false, off = false;
    std::uint16_t none = 0;  // fills a word, as words are compared
    bool operator==(const Shown& other) const {
      return std::bit_cast<std::uint64_t>(*this) == std::bit_cast<std::uint64_t>(other);
    }
  };

  // ---- drawing
  void due(int clock);
  void see_comb(int clock);
  void settle() {
    if (due_ > quiet_) draw_to(due_);
  }
  void draw_to(int clock);
  void draw(int first, int n);
  void end_line();
  void rebuild();
  void show(Object object, Shown shown, bool draw_first = true) {
    if (!(shown_[object] == shown)) show_anew(object, shown, draw_first);
  }
  void show_anew(Object object, Shown shown, bool draw_first);
  void show_player(int i, bool draw_first = true) {
    show(i == 0 ? kPlayer0 : kPlayer1, {at_[i], static_cast<std::uint8_t>(copies_[i] & 7), 0, false, false},
         draw_first);
  }
  void show_graphics(int player);
  void enable(Object object, bool on);

  // ---- registers
  int position(int clock) const { return (clock - frame_begin_) % kClocks; }
  void set_colour(Colour which, std::uint8_t value);
  void set_copies(int i, std::uint8_t value);
  void set_playfield(std::uint32_t bits);
  void set_control(std::uint8_t value, int clock);
  void set_blank(std::uint8_t value, std::uint32_t cycles);
  void reset_player(int i, int clock);
  void reset_missile(int i, int clock);
  void reset_ball(int clock);
  void move(int clock);
  void lock_missile(int i, std::uint8_t value);
  void clear_collisions();
  void show_missile(int i);
  void show_ball();
  std::uint8_t input(std::uint32_t which, std::uint32_t cycles);
  std::uint32_t charging(std::uint32_t which) const;
  ale::stella::Controller& controller(std::uint32_t which) const;

  const ale::stella::Console* console_ = nullptr;
  Compose compose_;
  Objects objects_{};
  unsigned stale_ = ~0u;  // by Object: lines_ must be built again
  bool finished_ = false;

  // ---- time, in clocks of a pixel each
  int frame_begin_ = 0, display_begin_ = 0, display_end_ = 0, last_clock_ = 0, sync_end_ = kNever;
  int drawn_ = 0;  // clocks up to this one are drawn
  int left_ = kClocks;  // clocks that are left of the line that is being drawn
  int due_ = 0;  // nothing visible has changed up to this clock
  int quiet_ = 0;  // nothing is visible up to this clock, for the rest of a line's blank
  std::uint32_t phase_ = 0;  // cycles + phase_ counts from the beginning of the frame
  std::uint8_t* row_ = nullptr;
  int ahead_ = 0;  // pixels of the line that were blanked in advance
  std::array<std::uint8_t, kPixels + kSlack> line_{};

  // ---- registers
  unsigned enabled_ = 0;  // by Object, in the emulator's order of bits
  std::uint8_t sync_ = 0, blank_ = 0, control_ = 0, loss_ = 0;
  std::array<std::uint8_t, 2> copies_{}, graphics_{}, delayed_{}, shown_graphics_{};
  std::array<bool, 2> reflected_{}, delay_{}, missile_{}, locked_{};
  std::uint32_t playfield_ = 0;
  bool ball_ = false, delayed_ball_ = false, delay_ball_ = false;
  bool playfield_reflected_ = false;
  std::array<std::int8_t, 5> motion_{};  // player 0, 1, missile 0, 1, ball
  std::array<std::int16_t, 5> at_{};
  std::array<Shown, kObjects> shown_{};
  std::uint16_t collisions_ = 0;
  int moved_ = 0;
  bool comb_ = false, combs_ = true, comb_unseen_ = false;
  bool stars_ = false;
  std::uint32_t star_ = 0;
  bool dump_ = false;
  int dump_end_ = 0;
  std::array<std::uint32_t, 4> charging_{};
};

// Pixels up to this clock are drawn with the look that is known now.
inline void Chip::due(int clock) {
  if (clock > due_) due_ = clock;
  if (comb_unseen_) [[unlikely]]
    see_comb(clock);
}

}  // namespace headrace::atari
