// The track of CarRacing: a closed road through twelve random points, by the rules of Gymnasium's car_racing.py, each
// number computed in the same order.
#pragma once

#include <array>
#include <numbers>
#include <optional>
#include <vector>

#include "engine/random.hpp"
#include "scene.hpp"

namespace headrace::box2d {

constexpr double kTrackScale = 6;                  // of the original's lengths
constexpr double kPlayfield = 2000 / kTrackScale;  // half the width of the field

// a place on the middle of the road
struct Waypoint {
  double alpha = 0, beta = 0;                      // its direction from the centre of the field, and the car's there
  double x = 0, y = 0;
};

using Quad = std::array<Point, 4>;

// the road from the waypoint before to a waypoint
struct Stretch {
  Quad road;
  std::optional<Quad> kerb;                        // in hard turns
};

// waypoints of one lap
std::vector<Waypoint> make_track(NumpyGenerator& random);

std::vector<Stretch> stretches(const std::vector<Waypoint>& track);

}  // namespace headrace::box2d
