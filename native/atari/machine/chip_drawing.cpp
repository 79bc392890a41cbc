// The picture chip's drawing: the pixels that are due, and the objects' look on them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "chip.hpp"

namespace headrace::atari {

Chip::Chip() : compose_(composer(best_vectors())) {}

// The first event in a line's blank with a comb ahead blanks the more pixels the earlier it happens; they stay blank if
// the frame ends before they are drawn.
void Chip::see_comb(int clock) {
  if (clock > drawn_ && position(clock) < kBlank) settle();
}

void Chip::draw_to(int clock) {
  if (clock < display_begin_ || drawn_ >= display_end_ || drawn_ >= clock) return;
  clock = std::min(clock, display_end_);
  do {
    int from = kClocks - left_, n;
    if (clock > drawn_ + left_) {
      n = left_;
      drawn_ += n;
      left_ = kClocks;
    } else {
      n = clock - drawn_;
      drawn_ = clock;
      left_ -= n;
    }
    if (from < kBlank) {
      const int skipped = std::min(kBlank - from, n);
      from += skipped;
      n -= skipped;
    }
    if (n > 0) draw(from - kBlank, n);
    if (comb_ && from < kBlank + kComb) {
      if (from < kBlank) {
        ahead_ = std::max(ahead_, kBlank + kComb - from);
        comb_unseen_ = false;
      } else {
        std::memset(line_.data() + from - kBlank, 0, static_cast<std::size_t>(kBlank + kComb - from));
        ahead_ = std::max(ahead_, +kComb);
        if (n + from >= kBlank + kComb) comb_ = comb_unseen_ = false;
      }
    }
    if (left_ == kClocks) end_line();
  } while (drawn_ < clock);
  quiet_ = drawn_ + (comb_unseen_ ? 0 : std::max(0, left_ - kPixels));
}

void Chip::draw(int first, int n) {
  std::uint8_t* const pixels = line_.data() + first;
  if (blank_ & 0x02) {
    std::memset(pixels, 0, static_cast<std::size_t>(n));
  } else if (enabled_ == 0) {
    std::memset(pixels, objects_.colours[kBackground], static_cast<std::size_t>(n));
  } else {
    if (stale_) rebuild();
    compose_(objects_, first, n, line_.data());
    if (objects_.layers.meeting) collisions_ |= meetings(objects_, first, n);
  }
}

// A line begins with all copies of the players, and with the playfield as its registers are now.
void Chip::end_line() {
  std::memcpy(row_, line_.data(), kPixels);
  row_ += kPixels;
  ahead_ = 0;
  comb_unseen_ = comb_;
  if (playfield_reflected_ != (control_ & 0x01)) playfield_reflected_ = control_ & 0x01, stale_ |= 1u << kPlayfield;
  for (int i = 0; i < 2; ++i) show_player(i, false);
  if (!stars_) return;
  // The stars of Cosmic Ark: a missile that runs away by 18, 33, 0 and 17 pixels, wide once and hidden once.
  static constexpr std::array<int, 4> runs = {18, 33, 0, 17};
  star_ = (star_ + 1) & 3;
  int at = at_[2] - runs[star_];
  if (at < 0) at += kPixels;
  at_[2] = static_cast<std::int16_t>(at);
  auto size = static_cast<std::uint8_t>(copies_[0] >> 4 & 3);
  if (star_ == 1) size |= 1;
  if (star_ == 2) show(kMissile0, {0, 0, 0, false, true}, false);
  else show(kMissile0, {at_[2], static_cast<std::uint8_t>(copies_[0] & 7), size, false, false}, false);
}

void Chip::show_anew(Object object, Shown shown, bool draw_first) {
  if (draw_first) settle();
  shown_[object] = shown;
  stale_ |= 1u << object;
}

void Chip::enable(Object object, bool on) {
  if (on == (enabled_ >> object & 1)) return;
  settle();
  enabled_ ^= 1u << object;
  stale_ |= 1u << object;
}

void Chip::rebuild() {
  for (; stale_; stale_ &= stale_ - 1) {
    const int object = std::countr_zero(stale_);
    if (object >= kObjects) break;
    const Shown& shown = shown_[object];
    Line& line = objects_.lines[object];
    if (!(enabled_ >> object & 1) || shown.off) line = Line();
    else if (object == kPlayfield) line = playfield_line(playfield_, playfield_reflected_);
    else if (object == kBall) line = ball_line(shown.size, shown.at);
    else if (object == kPlayer0 || object == kPlayer1)
      line = player_line(shown_graphics_[object == kPlayer1], shown.copies, shown.skip_first, shown.at);
    else line = missile_line(shown.copies, shown.size, shown.at);
  }
  stale_ = 0;
  const bool score = control_ & 0x02, in_front = control_ & 0x04;
  // If it is alone on its line, the playfield has the score's colours even in front.
  const bool alone = enabled_ == 1u << kPlayfield;
  objects_.layers.follow(objects_.lines, in_front && !(score && alone) ? Priority::playfield
                                         : score                       ? Priority::score
                                                                       : Priority::players);
}

}  // namespace headrace::atari
