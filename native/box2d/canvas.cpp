#include "canvas.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::box2d {

void Canvas::fill(const Colour& colour) {
  for (int i = 0; i < width_ * height_; ++i) std::ranges::copy(colour, rgb_ + 3 * i);
}

// Four lines cut each row of pixels. Between two crossings of a line with the edges, pixels are covered, and those at
// the ends in part.
void Canvas::polygon(std::span<const Point> corners, const Colour& colour) {
  constexpr int kLines = 4;
  const auto row_of = [&](const Point& p) { return height_ - p.y * scale_; };
  const auto [top, bottom] = std::ranges::minmax(corners, {}, row_of);
  const int first = static_cast<int>(std::clamp(std::floor(row_of(top)), 0.0, double(height_)));
  const int last = static_cast<int>(std::clamp(std::ceil(row_of(bottom)), 0.0, double(height_)));
  for (int row = first; row < last; ++row) {
    covered_.assign(width_, 0);
    for (int i = 0; i < kLines; ++i) {
      const double y = row + (i + 0.5) / kLines;
      crossings_.clear();
      for (std::size_t j = 0; j < corners.size(); ++j) {
        const Point &a = corners[j], &b = corners[(j + 1) % corners.size()];
        const double ya = row_of(a), yb = row_of(b);
        if ((ya <= y) == (yb <= y)) continue;
        const double x = a.x + (b.x - a.x) * (y - ya) / (yb - ya);
        crossings_.push_back(std::clamp((x - left_) * scale_, 0.0, double(width_)));
      }
      std::ranges::sort(crossings_);
      for (std::size_t j = 0; j + 1 < crossings_.size(); j += 2) {
        const double from = crossings_[j], to = crossings_[j + 1];
        for (int x = static_cast<int>(from); x < to; ++x)
          covered_[x] += static_cast<float>((std::min(to, x + 1.0) - std::max(from, double(x))) / kLines);
      }
    }
    std::uint8_t* pixel = rgb_ + 3 * width_ * row;
    for (int x = 0; x < width_; ++x, pixel += 3) {
      if (covered_[x] == 0) continue;
      for (int c = 0; c < 3; ++c)
        pixel[c] = static_cast<std::uint8_t>(std::lround(pixel[c] + (colour[c] - pixel[c]) * covered_[x]));
    }
  }
}

void Canvas::line(const Point& from, const Point& to, double pixels, const Colour& colour) {
  const double x = to.x - from.x, y = to.y - from.y, length = std::hypot(x, y);
  if (length == 0) return;
  const double across = pixels / 2 / scale_ / length;
  const Point side{-y * across, x * across};
  polygon(std::array<Point, 4>{{{from.x + side.x, from.y + side.y},
                                {to.x + side.x, to.y + side.y},
                                {to.x - side.x, to.y - side.y},
                                {from.x - side.x, from.y - side.y}}},
          colour);
}

void Canvas::body(const b2Body& body, const Colour& inside, const Colour& outline) {
  for (const b2Fixture* fixture = body.GetFixtureList(); fixture; fixture = fixture->GetNext()) {
    if (fixture->GetType() != b2Shape::e_polygon) continue;
    const auto& shape = static_cast<const b2PolygonShape&>(*fixture->GetShape());
    std::vector<Point> corners;
    for (int i = 0; i < shape.m_count; ++i) {
      const b2Vec2 corner = body.GetWorldPoint(shape.m_vertices[i]);
      corners.push_back({corner.x, corner.y});
    }
    polygon(corners, inside);
    for (std::size_t i = 0; i < corners.size(); ++i) line(corners[i], corners[(i + 1) % corners.size()], 1.5, outline);
  }
}

}  // namespace headrace::box2d
