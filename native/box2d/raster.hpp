// Pictures as pygame draws them, pixel by pixel: polygons on a window of 1000 x 800, scaled down. The window is never
// in memory as a whole; it is made row by row, and each row is scaled at once.
//
// The rules are those of pygame-ce 2.5: gfxdraw.aapolygon and gfxdraw.filled_polygon (of SDL2_gfx, with Wu's lines in 16
// bits of fraction), draw.polygon, and transform.smoothscale, whose sums are rounded down in each of two passes.
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
  static constexpr int kWidth = 1000, kHeight = 800, kScene = 700;   // below the scene: the panel

  void clear();

  // y grows upwards in the scene, where polygons lie, and downwards in the window, where the panel's rectangles do;
  // what is added later covers what was added before
  void smooth_polygon(std::span<const Pixel> corners, const Colour& colour);
  void polygon(std::span<const Pixel> corners, const Colour& colour);
  void rectangle(const Pixel& from, const Pixel& to, const Colour& colour);   // both are part of it

  // the window as a smaller picture
  void scale(std::uint8_t* rgb, int width, int height);

 private:
  static constexpr int kMostCorners = 8;
  using Rgbx = std::uint32_t;

  // an edge of a smooth polygon, from top to bottom; a sloped one goes on by `slope` / 65536 across for each pixel along
  struct Line {
    enum Kind { kNone, kStraight, kSteep, kFlat } kind = kNone;
    Pixel first, top, bottom;                      // first: drawn in the whole colour
    int direction = 1, slope = 0, length = 0;
  };

  struct Polygon {
    std::array<Pixel, kMostCorners> corners;
    std::array<Line, 4> lines;
    int count = 0, low = 0, high = 0;              // low, high: its rows
    bool smooth = false;
    Rgbx colour = 0;
  };

  struct Rectangle {
    Pixel from, to;
    Rgbx colour = 0;
  };

  // how many pixels become one: whole ones, and parts of those before and after them, in 1/16384
  struct Share {
    int first = 0, count = 0;
    std::uint16_t before = 0, after = 0;
  };

  static std::vector<Share> shares(int from, int to);
  static bool clip(Pixel& a, Pixel& b);
  static Line line(Pixel a, Pixel b);
  Polygon* add(std::span<const Pixel> corners, const Colour& colour);
  void paint_scene(int y);
  void paint_panel(int y);
  void paint(const Line& line, int y, Rgbx colour);
  void fill_smooth(const Polygon& polygon, int y);
  void fill(const Polygon& polygon, int y);
  void span(int from, int to, Rgbx colour);
  void blend(int x, int weight, Rgbx colour);
  void scale_row();

  std::vector<Polygon> polygons_;
  std::vector<Rectangle> rectangles_;
  std::vector<const Polygon*> near_;               // those that a band of rows crosses
  std::array<Rgbx, kWidth + 2> row_{};             // with a pixel more on each side
  std::vector<Share> across_;
  // numbers of channels of a row that is scaled
  std::vector<std::uint16_t> whole_, shared_, before_, after_, scaled_, sum_;
};

}  // namespace headrace::box2d
