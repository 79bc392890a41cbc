// The picture chip's registers.
#include "chip.hpp"

#include <algorithm>

#include "line.hpp"

namespace headrace::atari {
namespace {

enum Register {
  kVsync,
  kVblank,
  kWsync,
  kRsync,
  kNusiz0,
  kNusiz1,
  kColup0,
  kColup1,
  kColupf,
  kColubk,
  kCtrlpf,
  kRefp0,
  kRefp1,
  kPf0,
  kPf1,
  kPf2,
  kResp0,
  kResp1,
  kResm0,
  kResm1,
  kResbl,
  kAudio,
  kGrp0 = 0x1b,
  kGrp1,
  kEnam0,
  kEnam1,
  kEnabl,
  kHmp0,
  kHmp1,
  kHmm0,
  kHmm1,
  kHmbl,
  kVdelp0,
  kVdelp1,
  kVdelbl,
  kResmp0,
  kResmp1,
  kHmove,
  kHmclr,
  kCxclr
};

// The number of clocks after which a write shows; for the playfield it depends on the place of a group of four pixels.
constexpr std::array<std::uint8_t, 64> kDelays = [] {
  std::array<std::uint8_t, 64> delays{};
  for (const int late : {kVblank, kRefp0, kRefp1, kGrp0, kGrp1}) delays[late] = 1;
  for (const int late : {kNusiz0, kNusiz1, kResm0, kResm1}) delays[late] = 8;
  return delays;
}();
constexpr std::array<std::uint8_t, 4> kPlayfieldDelays = {4, 5, 2, 3};

constexpr int kCombCycles = 20;   // an HMOVE up to this cycle, or in a line's last cycle, makes a comb

// The distance by which HMOVE in this cycle of a line moves an object, with 0 to 15 in its motion register. HMOVE sends
// up to 15 pulses, four clocks apart; each moves an object left. A line's blank swallows eight at its end, and pulses
// after its end have no effect, as the object's clock runs anyway. Late in a line, the first pulses are lost in the
// picture and the rest come in the next blank, which is not lengthened.
constexpr int moved_by(int cycle, int value) {
  const int wanted = value ^ 8;
  if (cycle == 75) cycle = -1;
  if (cycle <= kCombCycles) return 8 - std::min(wanted, (70 - 3 * cycle) / 4);
  return -std::max(0, wanted - (222 - 3 * cycle) / 4);
}

constexpr int kCyclesPerLine = 76;
constexpr auto kMoves = [] {
  std::array<std::array<std::int8_t, 16>, kCyclesPerLine> moves{};
  for (int cycle = 0; cycle < kCyclesPerLine; ++cycle)
    for (int value = 0; value < 16; ++value) moves[cycle][value] = static_cast<std::int8_t>(moved_by(cycle, value));
  return moves;
}();

}  // namespace

std::uint32_t Chip::wait(std::uint32_t cycles, bool after_read) {
  const int clock = static_cast<int>(cycles * 3);
  due(clock);
  if (clock >= last_clock_) finished_ = true;
  if (const std::uint32_t passed = (cycles + phase_) % kCyclesPerLine; passed && after_read)
    cycles += kCyclesPerLine - passed;
  return cycles;
}

// Cases end in calls, so that the many writes that change nothing pay for no stack frame.
void Chip::write(std::uint32_t address, std::uint8_t value, std::uint32_t cycles) {
  const unsigned reg = address & 0x3f;
  const int clock = static_cast<int>(cycles * 3);
  due(clock + (reg >= kPf0 && reg <= kPf2 ? kPlayfieldDelays[(cycles + phase_) & 3] : kDelays[reg]));
  if (clock >= last_clock_) finished_ = true;  // the program forgot VSYNC
  switch (reg) {
    case kVsync:
      sync_ = value;
      if (value & 0x02) {
        sync_end_ = clock + kClocks;  // games do not keep to the three lines of a proper sync
      } else if (clock >= sync_end_) {
        sync_end_ = kNever;
        finished_ = true;
      }
      break;
    case kVblank: set_blank(value, cycles); break;
    case kNusiz0:
    case kNusiz1: set_copies(static_cast<int>(reg) - kNusiz0, value); break;
    case kColup0: set_colour(kPlayer0Colour, value); break;
    case kColup1: set_colour(kPlayer1Colour, value); break;
    case kColupf: set_colour(kPlayfieldColour, value); break;
    case kColubk: set_colour(kBackground, value); break;
    case kCtrlpf: set_control(value, clock); break;
    case kRefp0:
    case kRefp1:
      reflected_[reg - kRefp0] = value & 0x08;
      show_graphics(static_cast<int>(reg) - kRefp0);
      break;
    case kPf0: set_playfield((playfield_ & 0xffff0) | value >> 4); break;
    case kPf1: set_playfield((playfield_ & 0xff00f) | std::uint32_t{value} << 4); break;
    case kPf2: set_playfield((playfield_ & 0x00fff) | std::uint32_t{value} << 12); break;
    case kResp0:
    case kResp1: reset_player(static_cast<int>(reg) - kResp0, clock); break;
    case kResm0:
    case kResm1: reset_missile(static_cast<int>(reg) - kResm0, clock); break;
    case kResbl: reset_ball(clock); break;
    case kGrp0:  // a write of each player's graphics passes the other's on to its delayed register
      graphics_[0] = value;
      delayed_[1] = graphics_[1];
      show_graphics(0), show_graphics(1);
      break;
    case kGrp1:
      graphics_[1] = value;
      delayed_[0] = graphics_[0];
      delayed_ball_ = ball_;
      show_graphics(0), show_graphics(1);
      enable(kBall, delay_ball_ ? delayed_ball_ : ball_);
      break;
    case kEnam0:
    case kEnam1:
      missile_[reg - kEnam0] = value & 0x02;
      enable(reg == kEnam0 ? kMissile0 : kMissile1, (value & 0x02) && !locked_[reg - kEnam0]);
      break;
    case kEnabl:
      ball_ = value & 0x02;
      enable(kBall, delay_ball_ ? delayed_ball_ : ball_);
      break;
    case kHmm0:
      if (clock == moved_ + 21 * 3 && motion_[2] == 7 && value >> 4 == 6) {
        settle();
        stars_ = true;
        star_ = 0;
      }
      motion_[2] = static_cast<std::int8_t>(value >> 4);
      break;
    case kHmp0:
    case kHmp1:
    case kHmm1:
    case kHmbl: motion_[reg - kHmp0] = static_cast<std::int8_t>(value >> 4); break;
    case kVdelp0:
    case kVdelp1:
      delay_[reg - kVdelp0] = value & 0x01;
      show_graphics(static_cast<int>(reg) - kVdelp0);
      break;
    case kVdelbl:
      delay_ball_ = value & 0x01;
      enable(kBall, delay_ball_ ? delayed_ball_ : ball_);
      break;
    case kResmp0:
    case kResmp1: lock_missile(static_cast<int>(reg) - kResmp0, value); break;
    case kHmove: move(clock); break;
    case kHmclr: motion_ = {}; break;
    case kCxclr:
      settle();
      collisions_ = 0;
      break;
    default: break;  // nobody hears sound here
  }
}

void Chip::set_blank(std::uint8_t value, std::uint32_t cycles) {
  if ((value ^ blank_) & 0x80) {  // the paddles' capacitors are shorted, or charge from now on
    dump_ = value & 0x80;
    if (!dump_) dump_end_ = static_cast<int>(cycles);
  }
  if ((value ^ blank_) & 0x02) settle();
  blank_ = value;
}

void Chip::set_colour(Colour which, std::uint8_t value) {
  value = static_cast<std::uint8_t>((value & 0xfe) | loss_);
  if (objects_.colours[which] == value) return;
  settle();
  objects_.colours[which] = value;
}

void Chip::set_copies(int i, std::uint8_t value) {
  if ((value ^ copies_[i]) & 0x37) settle();
  copies_[i] = value;
  show_player(i);
  show_missile(i);
}

void Chip::set_playfield(std::uint32_t bits) {
  if (bits == playfield_) return;
  settle();
  playfield_ = bits;
  enabled_ = (enabled_ & ~(1u << kPlayfield)) | static_cast<unsigned>(bits != 0) << kPlayfield;
  stale_ |= 1u << kPlayfield;
}

// In a line's right half it is too late for a reflection.
void Chip::set_control(std::uint8_t value, int clock) {
  const bool reflected = position(clock) < kBlank + 79 ? value & 0x01 : playfield_reflected_;
  if (value != control_ || reflected != playfield_reflected_) {
    settle();
    control_ = value;
    playfield_reflected_ = reflected;
    stale_ |= 1u << kPlayfield;
  }
  show_ball();
}

void Chip::show_graphics(int i) {
  const std::uint8_t bits = delay_[i] ? delayed_[i] : graphics_[i];
  const std::uint8_t shown = reflected_[i] ? kReversed[bits] : bits;
  if (shown == shown_graphics_[i]) return;
  settle();
  shown_graphics_[i] = shown;
  const unsigned bit = 1u << (i == 0 ? kPlayer0 : kPlayer1);
  enabled_ = shown ? enabled_ | bit : enabled_ & ~bit;
  stale_ |= bit;
}

void Chip::show_missile(int i) {
  show(i == 0 ? kMissile0 : kMissile1, {at_[2 + i], static_cast<std::uint8_t>(copies_[i] & 7),
                                        static_cast<std::uint8_t>(copies_[i] >> 4 & 3), false, false});
}

void Chip::show_ball() { show(kBall, {at_[4], 0, static_cast<std::uint8_t>(control_ >> 4 & 3), false, false}); }

// A player starts anew at the place of the reset, without its first copy, for which it is too late in this line; unless
// another copy was about to start. A copy that is being shown is shown to its end.
void Chip::reset_player(int i, int clock) {
  const int x = position(clock), mode = copies_[i] & 7;
  const auto at = static_cast<std::int16_t>(x < kBlank ? 3 : (x - kBlank + 5) % kPixels);
  const int width = mode == kDoubleWidth ? 16 : mode == kQuadrupleWidth ? 32 : 8;
  const int since = (at - at_[i] + kPixels) % kPixels;
  bool starting = false;
  for (unsigned copies = kCopies[mode]; copies; copies &= copies - 1) {
    const int into = since - 16 * std::countr_zero(copies);
    if (into >= 0 && into < 4) starting = true;
    if (into >= 4 && into < 4 + width) due(clock + 11);
  }
  if (at != at_[i]) settle();
  at_[i] = at;
  show(i == 0 ? kPlayer0 : kPlayer1, {at, static_cast<std::uint8_t>(mode), 0, !starting, false});
}

// Only a few games show what happens just after HMOVE; the positions of missiles and ball are then the emulator's.
void Chip::reset_missile(int i, int clock) {
  const int x = position(clock), since = clock - moved_;
  int at = x < kBlank ? 2 : (x - kBlank + 4) % kPixels;
  if (i == 0 && since == 20 * 3 && x == 69) at = 8;
  if (i == 1 && since == 3 * 3 && x == 18) at = 3;
  if (at != at_[2 + i]) settle();
  at_[2 + i] = static_cast<std::int16_t>(at);
  show_missile(i);
}

void Chip::reset_ball(int clock) {
  const int x = position(clock), since = clock - moved_;
  int at = x < kBlank ? 2 : (x - kBlank + 4) % kPixels;
  if (since == 18 * 3 && (x == 60 || x == 69)) at = 10;
  if (since == 3 * 3 && x == 18) at = 3;
  if (since == 7 * 3 && x == 30) at = 6;
  if (since == 6 * 3 && x == 27) at = 5;
  at_[4] = static_cast<std::int16_t>(at);
  show_ball();
}

void Chip::move(int clock) {
  const int cycle = position(clock) / 3;
  const bool makes_comb = combs_ && (cycle <= kCombCycles || cycle == kCyclesPerLine - 1);
  makes_comb ? draw_to(due_) : settle();  // a comb reaches as far as its beginning allows
  if (makes_comb) comb_ = comb_unseen_ = true, quiet_ = drawn_;
  for (int i = 0; i < 5; ++i) {
    const int by = kMoves[cycle][motion_[i]];
    // Even if nothing moves, the first copies of players and the stars' missile come back.
    if (by == 0 && !stars_ && !(i < 2 && shown_[i == 0 ? kPlayer0 : kPlayer1].skip_first)) continue;
    const int at = at_[i] + by;
    at_[i] = static_cast<std::int16_t>(at < 0 ? at + kPixels : at >= kPixels ? at - kPixels : at);
    i < 2 ? show_player(i) : i < 4 ? show_missile(i - 2) : show_ball();
  }
  moved_ = clock;
  stars_ = false;
}

// A missile that is locked to its player hides in the player's middle, and comes out there.
void Chip::lock_missile(int i, std::uint8_t value) {
  if (locked_[i] && !(value & 0x02)) {
    const int mode = copies_[i] & 7, middle = mode == kDoubleWidth ? 8 : mode == kQuadrupleWidth ? 16 : 4;
    settle();
    at_[2 + i] = static_cast<std::int16_t>((at_[i] + middle) % kPixels);
    show_missile(i);
  }
  locked_[i] = value & 0x02;
  enable(i == 0 ? kMissile0 : kMissile1, missile_[i] && !locked_[i]);
}

// Each register below 8 has two latches, in the upper bits; the other bits keep the last byte on the bus.
std::uint8_t Chip::read(std::uint32_t address, std::uint32_t cycles, std::uint8_t bus) {
  const unsigned reg = address & 0x0f;
  const auto noise = static_cast<std::uint8_t>(bus & 0x3f);
  due(static_cast<int>(cycles * 3));
  if (reg >= 0x08) return reg < 0x0e ? input(reg - 0x08, cycles) | noise : noise;
  settle();
  if (reg == 0x06) return static_cast<std::uint8_t>((collisions_ >> 12 & 1) << 7 | noise);
  const unsigned pair = reg == 0x07 ? collisions_ >> 13 : collisions_ >> 2 * reg;
  return static_cast<std::uint8_t>((pair & 1) << 7 | (pair & 2) << 5 | noise);
}

}  // namespace headrace::atari
