// The prisms of which a height field consists: one below each triangle of its surface, down to its base.
#pragma once

#include <mujoco/mujoco.h>

#include <algorithm>

#include "math.hpp"

namespace headrace::lanes {
namespace {

// The prisms near a sphere, in the order of mjc_ConvexHField.
class Prisms {
 public:
  Prisms() = default;

  // centre: the sphere's, as the height field sees it
  Prisms(const mjModel& m, int field, const mjtNum (&centre)[3], mjtNum radius)
      : heights_(m.hfield_data + m.hfield_adr[field]), columns_(m.hfield_ncol[field]), lowest_(centre[2] - radius) {
    std::copy_n(centre, 3, centre_), std::copy_n(m.hfield_size + 4 * field, 4, size_);
    if (lowest_ > size_[2] || centre[2] + radius < -size_[3]) return;
    const int rows = m.hfield_nrow[field];
    dx_ = 2 * size_[0] / (columns_ - 1), dy_ = 2 * size_[1] / (rows - 1);
    int last_row = 0;
    if (!range(centre[0], radius, size_[0], columns_, &first_, &last_)) return;
    if (range(centre[1], radius, size_[1], rows, &row_, &last_row)) last_row_ = last_row;
    column_ = first_;
  }

  // Writes the triangle above the next prism that is as high as the sphere, about the centre; returns whether there is
  // one.
  template <class V>
  bool next(int l, V3<V> (&top)[3]) {
    while (row_ < last_row_) {
      const int right[3] = {0, second_, 1}, up[3] = {!second_, 0, 1};
      bool low = false;
      for (int i = 0; i < 3; ++i) {
        const int column = column_ + right[i], row = row_ + up[i];
        const mjtNum height = heights_[row * columns_ + column] * size_[2];
        low |= height >= lowest_;
        lane(top[i].x, l) = dx_ * column - size_[0] - centre_[0];
        lane(top[i].y, l) = dy_ * row - size_[1] - centre_[1];
        lane(top[i].z, l) = height - centre_[2];
      }
      second_ = !second_;
      if (!second_ && ++column_ == last_) column_ = first_, ++row_;
      if (low) return true;
    }
    return false;
  }

 private:
  static bool range(mjtNum x, mjtNum radius, mjtNum half, int n, int* first, int* last) {
    const auto cell = [&](mjtNum at) { return (at + half) / (2 * half) * (n - 1); };
    if (x - radius > half || x + radius < -half) return false;
    *first = std::max(0, static_cast<int>(std::floor(cell(x - radius))));
    *last = std::min(n - 1, static_cast<int>(std::ceil(cell(x + radius))));
    return *first < *last;
  }

  const float* heights_ = nullptr;
  mjtNum centre_[3], size_[4], dx_ = 0, dy_ = 0;
  int columns_ = 0;
  mjtNum lowest_ = 0;
  int row_ = 0, last_row_ = 0, column_ = 0, first_ = 0, last_ = 0;
  bool second_ = false;  // the next prism is a cell's second
};

// Returns the point of a prism that is nearest to the origin, which is above the base; `inside` are the lanes in which
// the origin is in the prism, and the point is not known. The triangle turns left, seen from above.
template <class V>
V3<V> nearest_of_prism(const V3<V> (&top)[3], typename V::M* inside) {
  const V none(0), one(1);
  const auto normal = cross(top[1] - top[0], top[2] - top[0]);
  const V height = -dot(normal, top[0]);  // of the origin above the triangle's plane
  auto within = none < height, below = height <= none;
  V3<V> best{none, none, none};
  V least(HUGE_VAL);
  for (int i = 0; i < 3; ++i) {
    const auto &from = top[i], along = top[(i + 1) % 3] - from;
    within = within & (none <= dot(normal, cross(from, along)));
    below = below & (none <= fnma(along.x, from.y, along.y * from.x));
    // the wall below this edge: at the origin's height or, where the edge is lower, the edge itself
    const auto part = [&](V dot, V square) { return min(max(-dot / square, none), one); };
    const V flat = fma(along.y, from.y, along.x * from.x), square = fma(along.y, along.y, along.x * along.x);
    const V t = part(flat, square);
    const auto wall = none <= fma(t, along.z, from.z);
    const V s = select(wall, t, part(fma(along.z, from.z, flat), fma(along.z, along.z, square)));
    auto point = fma(s, along, from);
    point.z = select(wall, none, point.z);
    const V far = dot(point, point);
    best = select<V>(far < least, point, best), least = min(far, least);
  }
  *inside = below;
  return select<V>(within, (-height / dot(normal, normal)) * normal, best);
}

}  // namespace
}  // namespace headrace::lanes
