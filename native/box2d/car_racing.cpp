#include "car_racing.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::box2d {
namespace {

constexpr double kFps = 50;
constexpr Material kTileMaterial{.sensor = true};

b2PolygonShape shape_of(const Quad& quad) { return polygon({quad[0], quad[1], quad[2], quad[3]}); }

}  // namespace

CarRacing::CarRacing(const Options& options)
    : options_(options),
      scene_(0, [this](const b2Body& body, const b2Body& other, bool touches) { hear(body, other, touches); }) {}

// Nothing, to the right, to the left, gas, brake.
CarRacing::Move CarRacing::move_of(int action) {
  constexpr std::array<Move, 5> moves{{{0, 0, 0}, {0.6, 0, 0}, {-0.6, 0, 0}, {0, 0.2, 0}, {0, 0, 0.8}}};
  return moves.at(static_cast<std::size_t>(action));
}

void CarRacing::begin(NumpyGenerator& random) {
  scene_.clear();
  visited_ = 0, lap_ = false;
  time_ = reward_ = told_ = 0;
  if (options_.domain_randomize) choose_colours(random);
  const auto track = make_track(random);
  make_road(track);
  car_.put(scene_, {track[0].x, track[0].y}, track[0].beta);
  drive();
}

void CarRacing::choose_colours(NumpyGenerator& random) {
  for (auto* colour : {&road_colour_, &field_colour_})
    for (auto& channel : *colour) channel = random.uniform(0, 210);
  grass_colour_ = field_colour_;
  grass_colour_[random.integers(0, 3)] += 20;
}

void CarRacing::make_road(const std::vector<Waypoint>& track) {
  road_ = stretches(track);
  tiles_.clear();
  for (const auto& stretch : road_) {
    b2Body* body = scene_.fixed(shape_of(stretch.road), kTileMaterial);
    tiles_.push_back({body});
    body->SetUserData(reinterpret_cast<void*>(tiles_.size() - 1));
  }
}

void CarRacing::hear(const b2Body& body, const b2Body& other, bool touches) {
  const auto index = reinterpret_cast<std::size_t>(other.GetUserData());
  Tile& tile = tiles_[index];
  tile.touched = true;
  Wheel* wheel = car_.wheel_of(body);
  if (!wheel) return;
  wheel->tiles += touches ? 1 : -1;
  if (!touches || tile.visited) return;
  tile.visited = true;
  reward_ += 1000.0 / static_cast<double>(tiles_.size());
  ++visited_;
  if (index == 0 && visited_ / static_cast<double>(tiles_.size()) > options_.lap_complete_percent) lap_ = true;
}

void CarRacing::drive() {
  car_.push(1 / kFps);
  scene_.step(1 / kFps);
  time_ += 1 / kFps;
  shown_ = reward_;
}

StepResult CarRacing::advance(const Move& move, NumpyGenerator&) {
  car_.control(-move[0], move[1], move[2]);
  drive();
  reward_ -= 0.1;
  const double reward = reward_ - told_;
  told_ = reward_;
  const b2Vec2 position = car_.hull()->GetPosition();
  if (std::abs(position.x) > kPlayfield || std::abs(position.y) > kPlayfield) return {-100, true, false};
  return {static_cast<float>(reward), visited_ == static_cast<int>(tiles_.size()) || lap_, false};
}

}  // namespace headrace::box2d
