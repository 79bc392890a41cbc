// Pictures as pygame draws them, pixel by pixel: polygons on a window of 1000 x 800, scaled down. The window is never
// in memory as a whole: each of its rows is a list of spans, which are painted and scaled row by row.
//
// The rules are those of pygame-ce 2.5: gfxdraw.aapolygon and gfxdraw.filled_polygon (of SDL2_gfx, with Wu's lines in
// 16 bits of fraction), draw.polygon, and transform.smoothscale, whose sums are rounded down in each of two passes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "canvas.hpp"

namespace headrace::box2d {

struct Pixel {
  int x = 0, y = 0;
};

class Raster {
 public:
  static constexpr int kWidth = 1000, kHeight = 800, kPanel = 100;   // its lowest rows are the panel

  // Makes an empty window, for a picture of this size.
  void clear(int width, int height);

  // y grows upwards in the scene, where polygons lie, and downwards in the window, where the panel's rectangles lie;
  // later shapes cover earlier ones.
  void smooth_polygon(std::span<const Pixel> corners, const Colour& colour);
  void polygon(std::span<const Pixel> corners, const Colour& colour);
  void rectangle(const Pixel& from, const Pixel& to, const Colour& colour);   // both ends are part of it

  void scale(std::uint8_t* rgb);

 private:
  static constexpr int kMostCorners = 8;
  using Rgbx = std::uint32_t;
  static constexpr Rgbx kRedBlue = 0xff00ff, kGreen = 0xff00;

  // Pixels of a row, with both ends, and the share by which they cover the pixels below, in 1/256.
  static constexpr int kOpaque = 256;
  struct Span {
    std::int16_t from, to;
    std::int32_t alpha;
    Rgbx colour, scaled;                           // scaled: the colour in the picture if nothing else is near

    bool operator==(const Span&) const = default;
  };

  // The pixels that become one pixel: whole ones, and parts of those before and after them, in 1/16384.
  struct Share {
    int first = 0, count = 0, before = 0, after = 0;
  };

  // One direction of the picture.
  struct Axis {
    std::vector<Share> shares;
    std::uint32_t factor = 0;                      // sums are multiplied by it, in 1/65536

    Axis() = default;
    Axis(int from, int to);
    Rgbx mixed(const Share& share, Rgbx red_blue, Rgbx green, Rgbx before, Rgbx after) const;
    Rgbx scaled(const Share& share, Rgbx colour) const;
  };

  void prepare(int width, int height);
  bool begin(std::span<const Pixel> corners, const Colour& colour);
  template <class Crossing>
  void find_crossings(std::span<const Pixel> corners, Crossing crossing);
  static bool clip(Pixel& a, Pixel& b);
  void line(Pixel a, Pixel b);
  void push(int y, int from, int to);
  void push_part(int y, int x, int weight);
  void paint(const Span& span);
  void mix(int x);
  void scale_row();

  std::array<std::vector<Span>, kHeight> rows_;

  // The polygon that is being added.
  Span ink_{};
  int low_ = 0, high_ = 0;                         // its rows
  std::array<std::array<int, kMostCorners>, kHeight> crossings_;
  std::array<int, kHeight> count_;                 // the number of crossings in each row

  Axis across_, down_;
  bool even_ = false;                              // a colour is scaled alike everywhere
  std::array<std::int16_t, kWidth + 1> cell_;      // the pixel of the picture in which two neighbours meet
  std::array<Rgbx, kWidth + 2> row_{};             // with a pixel more on each side
  std::vector<Rgbx> cells_;                        // the row, scaled
  std::array<std::uint64_t, kWidth / 64 + 1> mixed_{};   // bits: cells that have several colours
  std::vector<std::uint16_t> sums_;                // sums of rows, by channels
  std::vector<std::uint8_t> line_;                 // a line of the picture
};

}  // namespace headrace::box2d
