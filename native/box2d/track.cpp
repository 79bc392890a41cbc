#include "track.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::box2d {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr int kCheckpoints = 12;
constexpr double kRadius = 900 / kTrackScale, kStep = 21 / kTrackScale, kTurnRate = 0.31;
constexpr double kHalfWidth = 40 / kTrackScale, kKerb = 8 / kTrackScale;
constexpr double kStartAlpha = 2 * kPi * -0.5 / kCheckpoints;
constexpr int kMostWaypoints = 2500, kMostLaps = 4, kLeastKerb = 4;

struct Checkpoint {
  double alpha, x, y;
};
using Checkpoints = std::array<Checkpoint, kCheckpoints>;

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

Checkpoints checkpoints(NumpyGenerator& random) {
  Checkpoints points;
  for (int c = 0; c < kCheckpoints; ++c) {
    const double noise = random.uniform(0, 2 * kPi * 1 / kCheckpoints);
    double alpha = 2 * kPi * c / kCheckpoints + noise, radius = random.uniform(kRadius / 3, kRadius);
    if (c == 0) alpha = 0, radius = 1.5 * kRadius;
    if (c == kCheckpoints - 1) alpha = 2 * kPi * c / kCheckpoints, radius = 1.5 * kRadius;
    points[c] = {alpha, radius * std::cos(alpha), radius * std::sin(alpha)};
  }
  return points;
}

// Drives from one checkpoint to the next, for some laps.
void drive(const Checkpoints& points, std::vector<Waypoint>& way) {
  double x = 1.5 * kRadius, y = 0, beta = 0;
  int next = 0, laps = 0;
  bool other_side = false;
  for (int left = kMostWaypoints; left > 0 && laps <= kMostLaps; --left) {
    double alpha = std::atan2(y, x);
    if (other_side && alpha > 0) ++laps, other_side = false;
    if (alpha < 0) other_side = true, alpha += 2 * kPi;
    for (; alpha > points[next].alpha; next = (next + 1) % kCheckpoints)
      if (next == kCheckpoints - 1) alpha -= 2 * kPi;
    const double cos = std::cos(beta), sin = std::sin(beta);
    const double ahead = (cos * (points[next].x - x) + sin * (points[next].y - y)) * kTrackScale;
    while (beta - alpha > 1.5 * kPi) beta -= 2 * kPi;
    while (beta - alpha < -1.5 * kPi) beta += 2 * kPi;
    const double before = beta;
    if (ahead > 0.3) beta -= std::min(kTurnRate, std::abs(0.001 * ahead));
    if (ahead < -0.3) beta += std::min(kTurnRate, std::abs(0.001 * ahead));
    x += -sin * kStep, y += cos * kStep;
    way.push_back({alpha, before * 0.5 + beta * 0.5, x, y});
  }
}

// Keeps the last whole lap of the way; returns false if there is none, or its ends do not meet.
bool cut(std::vector<Waypoint>& way) {
  int first = -1, last = -1;
  for (int i = static_cast<int>(way.size()) - 1; first < 0; --i) {
    if (i == 0) return false;
    if (!(way[i].alpha > kStartAlpha && way[i - 1].alpha <= kStartAlpha)) continue;
    (last < 0 ? last : first) = i;
  }
  way.erase(way.begin() + last - 1, way.end());
  way.erase(way.begin(), way.begin() + first);
  const Waypoint &a = way.front(), &b = way.back();
  const double x = std::cos(a.beta) * (a.x - b.x), y = std::sin(a.beta) * (a.y - b.y);
  return std::sqrt(x * x + y * y) <= kStep;
}

// Finds out whether the road has a kerb at each waypoint.
std::vector<bool> kerbs(const std::vector<Waypoint>& track) {
  const int n = static_cast<int>(track.size());
  const auto at = [n](int i) { return (i + n) % n; };
  std::vector<bool> kerb(n);
  for (int i = 0; i < n; ++i) {
    bool hard = true;
    double turns = 0;
    for (int back = 0; back < kLeastKerb; ++back) {
      const double turn = track[at(i - back)].beta - track[at(i - back - 1)].beta;
      hard &= std::abs(turn) > kTurnRate * 0.2;
      turns += sign(turn);
    }
    kerb[i] = hard && std::abs(turns) == kLeastKerb;
  }
  for (int i = 0; i < n; ++i)
    for (int back = 0; back < kLeastKerb; ++back)
      if (kerb[i]) kerb[at(i - back)] = true;
  return kerb;
}

// The point so far to the right of the road's middle.
Point beside(const Waypoint& at, double right) {
  return {at.x + right * std::cos(at.beta), at.y + right * std::sin(at.beta)};
}

Quad strip(const Waypoint& here, const Waypoint& before, double from, double to) {
  return {beside(here, from), beside(here, to), beside(before, to), beside(before, from)};
}

}  // namespace

std::vector<Waypoint> make_track(NumpyGenerator& random) {
  std::vector<Waypoint> way;
  way.reserve(kMostWaypoints);
  do {
    way.clear();
    drive(checkpoints(random), way);
  } while (!cut(way));
  return way;
}

std::vector<Stretch> stretches(const std::vector<Waypoint>& track) {
  const auto kerb = kerbs(track);
  std::vector<Stretch> road;
  for (std::size_t i = 0; i < track.size(); ++i) {
    const Waypoint &here = track[i], &before = i > 0 ? track[i - 1] : track.back();
    auto& stretch = road.emplace_back(strip(here, before, -kHalfWidth, kHalfWidth));
    const double side = sign(before.beta - here.beta);
    if (kerb[i]) stretch.kerb = strip(here, before, side * kHalfWidth, side * (kHalfWidth + kKerb));
  }
  return road;
}

}  // namespace headrace::box2d
