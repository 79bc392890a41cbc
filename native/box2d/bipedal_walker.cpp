#include "bipedal_walker.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "canvas.hpp"

namespace headrace::box2d {
namespace {

constexpr double kFps = 50, kScale = 30;           // pixels a metre
constexpr double kW = BipedalWalker::kWidth / kScale, kH = BipedalWalker::kHeight / kScale;
constexpr double kTorque = 80, kHipSpeed = 4, kKneeSpeed = 6, kLidarRange = 160 / kScale, kInitialRandom = 5;
constexpr double kLegDown = -8 / kScale, kLegWidth = 8 / kScale, kLegHeight = 34 / kScale;
constexpr double kStep = 14 / kScale;              // a step of the ground
constexpr int kLength = 200, kGrass = 10, kStartPad = 20;   // in steps
constexpr double kLevel = kH / 4, kFriction = 2.5;
constexpr Material kRough{.friction = kFriction};
constexpr Material kHullMaterial{.density = 5, .friction = 0.1, .category = 0x0020, .mask = kGround};
constexpr Material kLegMaterial{.density = 1, .category = 0x0020, .mask = kGround};
constexpr Colour kSky{215, 215, 255}, kEarth{102, 153, 76}, kTurf{76, 230, 76}, kHull{127, 51, 229}, kEdge{76, 76, 127};

float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }
double sign(double x) { return (x > 0) - (x < 0); }

// The height of the ground at each step, and the obstacles on it.
class Terrain {
 public:
  Terrain(NumpyGenerator& random, Scene& scene, std::vector<b2Body*>& obstacles)
      : random_(random), scene_(scene), obstacles_(obstacles) {}

  std::vector<Point> make(bool hardcore) {
    std::vector<Point> ground;
    for (int i = 0; i < kLength; ++i) {
      const double x = i * kStep;
      advance(i, x);
      ground.push_back({x, y_});
      first_ = false;
      if (--left_ == 0) change(hardcore);
    }
    return ground;
  }

 private:
  enum Kind { grass, stump, stairs, pit, kinds };

  void advance(int i, double x) {
    if (kind_ == grass && !first_) {
      slope_ = 0.8 * slope_ + 0.01 * sign(kLevel - y_);
      if (i > kStartPad) slope_ += random_.uniform(-1, 1) / kScale;
      y_ += slope_;
    } else if (kind_ == pit && first_) {
      left_ = random_.integers(3, 5);
      block(x, x + kStep, y_, y_ - 4 * kStep);
      const double width = kStep * static_cast<double>(left_);
      block(x + width, x + kStep + width, y_, y_ - 4 * kStep);
      left_ += 2;
      level_ = y_;
    } else if (kind_ == pit) {
      y_ = level_;
      if (left_ > 1) y_ -= 4 * kStep;
    } else if (kind_ == stump && first_) {
      left_ = random_.integers(1, 3);
      const double size = static_cast<double>(left_) * kStep;
      block(x, x + size, y_, y_ + size);
    } else if (kind_ == stairs && first_) {
      climb(x);
    } else if (kind_ == stairs) {
      const auto s = static_cast<double>(stairs_ * width_ - left_ - up_);
      y_ = level_ + s / static_cast<double>(width_) * static_cast<double>(up_) * kStep;
    }
  }

  void climb(double x) {
    up_ = random_.random() > 0.5 ? 1 : -1;
    width_ = random_.integers(4, 5);
    stairs_ = random_.integers(3, 5);
    level_ = y_;
    for (std::int64_t s = 0; s < stairs_; ++s) {
      const auto steps = [](std::int64_t n) { return static_cast<double>(n) * kStep; };
      block(x + steps(s * width_), x + steps((1 + s) * width_), y_ + steps(s * up_), y_ + steps(-1 + s * up_));
    }
    left_ = stairs_ * width_;
  }

  void change(bool hardcore) {
    left_ = random_.integers(kGrass / 2, kGrass);
    kind_ = kind_ == grass && hardcore ? static_cast<Kind>(random_.integers(1, kinds)) : grass;
    first_ = true;
  }

  void block(double left, double right, double y, double other_y) {
    obstacles_.push_back(scene_.fixed(polygon({{left, y}, {right, y}, {right, other_y}, {left, other_y}}), kRough));
  }

  NumpyGenerator& random_;
  Scene& scene_;
  std::vector<b2Body*>& obstacles_;
  Kind kind_ = grass;
  bool first_ = false;                             // this is the first step of a kind of ground
  double y_ = kLevel, slope_ = 0, level_ = 0;
  std::int64_t left_ = kStartPad, stairs_ = 0, width_ = 0, up_ = 0;
};

// Finds the nearest ground on a ray.
class Ray final : public b2RayCastCallback {
 public:
  float fraction = 1;

  float ReportFixture(b2Fixture* fixture, const b2Vec2&, const b2Vec2&, float at) override {
    if ((fixture->GetFilterData().categoryBits & kGround) == 0) return -1;
    return fraction = at;
  }
};

}  // namespace

BipedalWalker::BipedalWalker(const Options& options)
    : options_(options), scene_(-10, [this](const b2Body& body, const b2Body&, bool touches) {
        if (&body == hull_) fell_ |= touches;
        for (int i = 0; i < 2; ++i)
          if (&body == legs_[2 * i + 1]) on_ground_[i] = touches;
      }) {}

void BipedalWalker::begin(NumpyGenerator& random) {
  scene_.clear();
  obstacles_.clear();
  hull_ = nullptr, legs_ = {};
  on_ground_ = {}, fell_ = false;
  shaped_.reset();
  make_ground(random);
  make_clouds(random);
  make_walker(random);
  advance({}, random);
}

void BipedalWalker::make_ground(NumpyGenerator& random) {
  ground_ = Terrain(random, scene_, obstacles_).make(options_.hardcore);
  for (int i = 0; i + 1 < kLength; ++i) scene_.fixed(edge(ground_[i], ground_[i + 1]), kRough);
}

void BipedalWalker::make_clouds(NumpyGenerator& random) {
  clouds_.resize(kLength / 20);
  for (auto& cloud : clouds_) {
    const double x = random.uniform(0, kLength) * kStep;
    for (int a = 0; a < 5; ++a) {
      cloud[a].x = x + 15 * kStep * std::sin(3.14 * 2 * a / 5) + random.uniform(0, 5 * kStep);
      cloud[a].y = kH * 3 / 4 + 5 * kStep * std::cos(3.14 * 2 * a / 5) + random.uniform(0, 5 * kStep);
    }
  }
}

void BipedalWalker::make_walker(NumpyGenerator& random) {
  const Point start{kStep * kStartPad / 2, kLevel + 2 * kLegHeight};
  const auto hull = polygon({{-30 / kScale, 9 / kScale},
                             {6 / kScale, 9 / kScale},
                             {34 / kScale, 1 / kScale},
                             {34 / kScale, -8 / kScale},
                             {-30 / kScale, -8 / kScale}});
  hull_ = scene_.moving(start, 0, hull, kHullMaterial);
  hull_->ApplyForceToCenter(Point{random.uniform(-kInitialRandom, kInitialRandom), 0}, true);
  for (int leg = 0; leg < 2; ++leg) {
    const int side = 2 * leg - 1;
    const auto upper = scene_.moving({start.x, start.y - kLegHeight / 2 - kLegDown}, side * 0.05,
                                     box(kLegWidth / 2, kLegHeight / 2), kLegMaterial);
    legs_[2 * leg] = upper;
    joints_[2 * leg] =
        scene_.hinge({hull_, upper, {0, kLegDown}, {0, kLegHeight / 2}, -0.8, 1.1, double(side), kTorque});
    const auto lower = scene_.moving({start.x, start.y - kLegHeight * 3 / 2 - kLegDown}, side * 0.05,
                                     box(0.8 * kLegWidth / 2, kLegHeight / 2), kLegMaterial);
    legs_[2 * leg + 1] = lower;
    joints_[2 * leg + 1] =
        scene_.hinge({upper, lower, {0, -kLegHeight / 2}, {0, kLegHeight / 2}, -1.6, -0.1, 1, kTorque});
  }
}

// Gymnasium subtracts the torques from the reward as floats
StepResult BipedalWalker::advance(const Move& torques, NumpyGenerator&) {
  for (int i = 0; i < 4; ++i) {
    const double speed = i % 2 == 0 ? kHipSpeed : kKneeSpeed;
    joints_[i]->SetMotorSpeed(static_cast<float>(speed) * sign(torques[i]));
    joints_[i]->SetMaxMotorTorque(static_cast<float>(kTorque) * std::min(std::abs(torques[i]), 1.0f));
  }
  scene_.step(1 / kFps);
  look();

  const b2Vec2 position = hull_->GetPosition(), velocity = hull_->GetLinearVelocity();
  const auto angle = [&](int i) -> double { return joints_[i]->GetJointAngle(); };
  const auto speed = [&](int i) -> double { return joints_[i]->GetJointSpeed(); };
  state_ = {hull_->GetAngle(),
            2.0 * hull_->GetAngularVelocity() / kFps,
            0.3 * velocity.x * kW / kFps,
            0.3 * velocity.y * kH / kFps,
            angle(0),
            speed(0) / kHipSpeed,
            angle(1) + 1.0,
            speed(1) / kKneeSpeed,
            on_ground_[0] ? 1.0 : 0.0,
            angle(2),
            speed(2) / kHipSpeed,
            angle(3) + 1.0,
            speed(3) / kKneeSpeed,
            on_ground_[1] ? 1.0 : 0.0};
  double worth = 130 * static_cast<double>(position.x) / kScale;
  worth -= 5.0 * std::abs(state_[0]);
  auto reward = static_cast<float>(shaped_ ? worth - *shaped_ : 0);
  shaped_ = worth;
  for (const float torque : torques) reward -= static_cast<float>(0.00035 * kTorque) * std::min(std::abs(torque), 1.0f);
  if (fell_ || position.x < 0) return {-100, true, false};
  return {reward, position.x > (kLength - kGrass) * kStep, false};
}

void BipedalWalker::look() {
  const b2Vec2 from = hull_->GetPosition();
  for (int i = 0; i < kLidars; ++i) {
    Ray ray;
    const double angle = 1.5 * i / 10.0;
    const Point to{from.x + std::sin(angle) * kLidarRange, from.y - std::cos(angle) * kLidarRange};
    scene_.world().RayCast(&ray, from, to);
    lidar_[i] = ray.fraction;
  }
}

void BipedalWalker::observe(std::span<float> out) const {
  std::ranges::transform(state_, out.begin(), [](double x) { return static_cast<float>(x); });
  std::ranges::copy(lidar_, out.begin() + state_.size());
}

void BipedalWalker::render(std::uint8_t* rgb) const {
  const double left = hull_ ? hull_->GetPosition().x - kW / 5 : 0;
  Canvas canvas(rgb, kWidth, kHeight, kScale, left);
  canvas.fill(kSky);
  for (auto cloud : clouds_) {
    for (auto& corner : cloud) corner.x += left / 2;   // far away
    canvas.polygon(cloud, {255, 255, 255});
  }
  const auto shown =
      std::ranges::subrange(std::ranges::lower_bound(ground_, left - kStep, {}, &Point::x), ground_.end()) |
      std::views::take(static_cast<int>(kW / kStep) + 3);
  std::vector<Point> earth(shown.begin(), shown.end());
  for (std::size_t i = 0; i + 1 < earth.size(); ++i) canvas.line(earth[i], earth[i + 1], 4, kTurf);
  if (!earth.empty()) {
    const double first = earth.front().x, last = earth.back().x;
    earth.insert(earth.end(), {{last, 0}, {first, 0}});
    canvas.polygon(earth, kEarth);
  }
  for (const b2Body* obstacle : obstacles_) canvas.body(*obstacle, {255, 255, 255}, {153, 153, 153});
  const double pole = kStep * 3, top = kLevel + 50 / kScale;
  canvas.line({pole, kLevel}, {pole, top}, 1.5, {0, 0, 0});
  canvas.polygon(std::array<Point, 3>{{{pole, top}, {pole, top - 10 / kScale}, {pole + 25 / kScale, top - 5 / kScale}}},
                 {230, 51, 0});
  if (hull_ == nullptr) return;
  for (int i = 0; i < 4; ++i) {
    const auto shade = [&](int value) { return static_cast<std::uint8_t>(value + (i < 2 ? 25 : -25)); };
    canvas.body(*legs_[i], {shade(153), shade(76), shade(127)}, {shade(102), shade(51), shade(76)});
  }
  canvas.body(*hull_, kHull, kEdge);
}

}  // namespace headrace::box2d
