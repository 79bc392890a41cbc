// Shrinks a frame as OpenCV does, to the last bit: `cv2.resize` with INTER_AREA for 8-bit
// pixels, and INTER_LINEAR within one level.
//
// OpenCV sums areas in single precision. For the one shape that everybody uses, 210 × 160 to 84 × 84, every weight is a
// multiple of 1/200, so integers give the exact sum. Rounding in floats decides only if the sum lies half-way between
// two levels; for those sums alone OpenCV's float arithmetic is repeated.
#pragma once

#include <cstdint>
#include <vector>

#include "screen.hpp"

namespace headrace::atari {

class Resizer {
 public:
  Resizer(int height, int width, int out_height, int out_width, bool area, Level level = best_level());

  // src: height * width, dst: out_height * out_width. before: the result when `src` differed only in the pixels that
  // `changed` names; the rest of the work is then not repeated. `before` may be `dst`.
  void operator()(const std::uint8_t* src, std::uint8_t* dst, const std::uint8_t* before = nullptr,
                  Changed changed = kAllChanged);

 private:
  // A source pixel and its share of one output pixel.
  struct Tap {
    int from;
    float share;
  };
  using Taps = std::vector<std::vector<Tap>>;  // for each output row or column

  static Taps area_taps(int from, int to);
  static Taps linear_taps(int from, int to, bool area);
  static bool whole(int from, int to) { return from % to == 0; }

  void blocks(const std::uint8_t* src, std::uint8_t* dst) const;
  void weighted(const std::uint8_t* src, std::uint8_t* dst);
  void atari84(const std::uint8_t* src, std::uint8_t* dst, Changed changed) const;
  std::uint8_t pixel(const std::uint8_t* src, int y, int x) const;

  int height_, width_, out_height_, out_width_;
  enum class Method { copy, blocks, weighted, atari84 } method_;
  Level level_;
  Taps rows_, columns_;
  std::vector<float> row_, sum_;  // scratch
};

}  // namespace headrace::atari
