// Pictures of a world: polygons with smooth edges, on rows of red, green and blue.
#pragma once

#include <Box2D/Box2D.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scene.hpp"

namespace headrace::box2d {

using Colour = std::array<std::uint8_t, 3>;

// Coordinates are metres, upwards; the lower left corner of the picture lies at (left, 0).
class Canvas {
 public:
  Canvas(std::uint8_t* rgb, int width, int height, double scale, double left = 0)
      : rgb_(rgb), width_(width), height_(height), scale_(scale), left_(left) {}

  void fill(const Colour& colour);
  void polygon(std::span<const Point> corners, const Colour& colour);
  void line(const Point& from, const Point& to, double pixels, const Colour& colour);
  // Draws a world's shapes: polygons, filled and with an outline.
  void body(const b2Body& body, const Colour& inside, const Colour& outline);

 private:
  std::uint8_t* rgb_;
  int width_, height_;
  double scale_, left_;
  std::vector<double> crossings_;
  std::vector<float> covered_;
};

}  // namespace headrace::box2d
