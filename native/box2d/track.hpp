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

constexpr double kTrackScale = 6;                  // the original's lengths are divided by this
constexpr double kPlayfield = 2000 / kTrackScale;  // half the width of the field

// A place on the middle of the road.
struct Waypoint {
  double alpha = 0, beta = 0;  // the direction of the place from the field's centre, and the car's direction there
  double x = 0, y = 0;
};

using Quad = std::array<Point, 4>;

// The road from one waypoint to the next.
struct Stretch {
  Quad road;
  std::optional<Quad> kerb;                        // hard turns have one
};

// Returns the waypoints of one lap.
std::vector<Waypoint> make_track(NumpyGenerator& random);

std::vector<Stretch> stretches(const std::vector<Waypoint>& track);

}  // namespace headrace::box2d
