// The 160 pixels of a line, one bit each, and the shapes of the picture chip's objects on it.
//
// From the Stella Programmer's Guide: copies and widths of players and missiles (NUSIZ), the ball's width,
// the playfield's twenty bits of four pixels each.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace headrace::atari {

constexpr int kPixels = 160;

class Line {
 public:
  // Returns pixels from `first` on, one in each bit; at least 57 of them.
  std::uint64_t from(int first) const {
    std::uint64_t bits;
    std::memcpy(&bits, reinterpret_cast<const char*>(words_.data()) + first / 8, sizeof bits);
    return bits >> first % 8;
  }

  bool empty() const { return (words_[0] | words_[1] | words_[2]) == 0; }

  // Adds up to 33 pixels, at 0 <= at < 2 * 160; pixels beyond the right end appear on the left.
  void add(std::uint64_t pattern, int at) {
    if (at >= kPixels) at -= kPixels;
    const int word = at / 64, bit = at % 64;
    words_[word] |= pattern << bit;
    if (bit > 0) words_[word + 1] |= pattern >> (64 - bit);
    if (at > 127) words_[0] |= pattern >> (kPixels - at);
  }

 private:
  friend Line playfield_line(std::uint32_t, bool);
  friend struct Layers;
  alignas(32) std::array<std::uint64_t, 4> words_{};
};

static_assert(std::endian::native == std::endian::little, "pixels are read as words");

namespace detail {

constexpr std::uint8_t reversed(unsigned byte) {
  unsigned result = 0;
  for (int i = 0; i < 8; ++i) result |= (byte >> i & 1) << (7 - i);
  return static_cast<std::uint8_t>(result);
}

// Repeats each bit so often.
constexpr std::uint32_t stretched(unsigned byte, int times) {
  std::uint32_t result = 0;
  for (int i = 0; i < 8 * times; ++i) result |= (byte >> i / times & 1u) << i;
  return result;
}

template <class Word, class Function>
constexpr std::array<Word, 256> table(Function f) {
  std::array<Word, 256> words{};
  for (unsigned i = 0; i < 256; ++i) words[i] = static_cast<Word>(f(i));
  return words;
}

}  // namespace detail

inline constexpr auto kReversed = detail::table<std::uint8_t>(detail::reversed);
inline constexpr auto kFourfold = detail::table<std::uint32_t>([](unsigned i) { return detail::stretched(i, 4); });
// A player's graphics as pixels from the left, by the width of each bit.
inline constexpr auto kSingle = kReversed;
inline constexpr auto kDouble =
    detail::table<std::uint16_t>([](unsigned i) { return detail::stretched(detail::reversed(i), 2); });
inline constexpr auto kQuadruple =
    detail::table<std::uint32_t>([](unsigned i) { return detail::stretched(detail::reversed(i), 4); });

// NUSIZ: the places of copies, 16 pixels apart each: bit k stands for a copy at 16 * k.
inline constexpr std::array<std::uint8_t, 8> kCopies = {0b00001, 0b00011, 0b00101, 0b00111,
                                                        0b10001, 0b00001, 0b10101, 0b00001};
constexpr int kDoubleWidth = 5, kQuadrupleWidth = 7;

inline void add_copies(Line& line, std::uint64_t pattern, unsigned copies, int at) {
  for (; copies; copies &= copies - 1) line.add(pattern, at + 16 * std::countr_zero(copies));
}

// Wide players come a pixel later.
inline Line player_line(std::uint8_t graphics, int mode, bool skip_first, int at) {
  Line line;
  if (graphics == 0) return line;
  const unsigned copies = kCopies[mode] & (skip_first ? ~1u : ~0u);
  if (mode == kDoubleWidth) add_copies(line, kDouble[graphics], copies, at + 1);
  else if (mode == kQuadrupleWidth) add_copies(line, kQuadruple[graphics], copies, at + 1);
  else add_copies(line, kSingle[graphics], copies, at);
  return line;
}

constexpr std::uint64_t block(int size) { return (1u << (1 << size)) - 1; }   // 1, 2, 4 or 8 pixels

inline Line missile_line(int mode, int size, int at) {
  Line line;
  add_copies(line, block(size), kCopies[mode], at);
  return line;
}

inline Line ball_line(int size, int at) {
  Line line;
  line.add(block(size), at);
  return line;
}

// Bits 3-0 are PF0's upper half, 11-4 PF1, 19-12 PF2; PF1 is shown from its highest bit on.
inline Line playfield_line(std::uint32_t bits, bool reflected) {
  const std::uint64_t left = (bits & 0xff00f) | std::uint32_t{kReversed[bits >> 4 & 0xff]} << 4;
  const std::uint64_t mirrored = std::uint64_t{kReversed[left & 0xff]} << 12 |
                                 std::uint64_t{kReversed[left >> 8 & 0xff]} << 4 | kReversed[left >> 16] >> 4;
  const std::uint64_t both = left | (reflected ? mirrored : left) << 20;
  Line line;
  auto four = [both](int byte) { return std::uint64_t{kFourfold[both >> 8 * byte & 0xff]}; };
  line.words_ = {four(0) | four(1) << 32, four(2) | four(3) << 32, four(4), 0};
  return line;
}

}  // namespace headrace::atari
