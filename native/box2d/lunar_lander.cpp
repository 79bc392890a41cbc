#include "lunar_lander.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "canvas.hpp"

namespace headrace::box2d {
namespace {

constexpr double kFps = 50, kScale = 30;           // pixels a metre
constexpr double kW = LunarLander::kWidth / kScale, kH = LunarLander::kHeight / kScale;
constexpr double kMainPower = 13, kSidePower = 0.6, kInitialRandom = 1000;
constexpr double kLegAway = 20, kLegDown = 18, kLegTorque = 40;
constexpr double kSideHeight = 14, kSideAway = 12, kMainY = 4;
constexpr double kPad = kH / 4;                    // the height of the landing pad
constexpr Material kHullMaterial{.density = 5, .friction = 0.1, .category = 0x0010, .mask = kGround};
constexpr Material kLegMaterial{.density = 1, .category = 0x0020, .mask = kGround};
constexpr Colour kHull{128, 102, 230}, kOutline{77, 77, 128}, kFlag{204, 204, 0}, kFlame{255, 140, 40};

// A function that is never periodic, between -1 and 1.
double gust(std::int64_t k) {
  const auto i = static_cast<double>(k);
  return std::tanh(std::sin(0.02 * i) + std::sin(std::numbers::pi * 0.01 * i));
}

double length(double x, double y) { return std::sqrt(x * x + y * y); }

}  // namespace

LunarLander::LunarLander(const Options& options)
    : options_(options), scene_(options.gravity, [this](const b2Body& body, const b2Body&, bool touches) {
        if (&body == lander_) crashed_ |= touches;
        for (int i = 0; i < 2; ++i)
          if (&body == legs_[i]) on_ground_[i] = touches;
      }) {}

// Nothing, the left engine, the main one, the right one.
LunarLander::Move LunarLander::move_of(int action) {
  constexpr std::array<Move, 4> moves{{{0, 0}, {0, -1}, {1, 0}, {0, 1}}};
  return moves.at(static_cast<std::size_t>(action));
}

void LunarLander::begin(NumpyGenerator& random) {
  scene_.clear();
  lander_ = nullptr, legs_ = {};
  on_ground_ = {}, crashed_ = false;
  shaped_.reset();
  make_moon(random);
  make_lander(random);
  advance({0, 0}, random);
}

void LunarLander::make_moon(NumpyGenerator& random) {
  std::array<double, kChunks + 1> height;
  for (auto& y : height) y = random.uniform(0, kH / 2);
  std::fill_n(height.begin() + kChunks / 2 - 2, 5, kPad);
  for (int i = 0; i < kChunks; ++i) {
    const double before = i > 0 ? height[i - 1] : height.back();   // Python counts so from the end
    surface_[i] = {kW / (kChunks - 1) * i, 0.33 * (before + height[i] + height[i + 1])};
  }
  b2Body* moon = scene_.fixed(edge({0, 0}, {kW, 0}), {});
  for (int i = 0; i + 1 < kChunks; ++i) add(*moon, edge(surface_[i], surface_[i + 1]), {.friction = 0.1});
}

void LunarLander::make_lander(NumpyGenerator& random) {
  const Point start{kW / 2, kH};
  const auto hull = polygon({{-14 / kScale, 17 / kScale},
                             {-17 / kScale, 0},
                             {-17 / kScale, -10 / kScale},
                             {17 / kScale, -10 / kScale},
                             {17 / kScale, 0},
                             {14 / kScale, 17 / kScale}});
  lander_ = scene_.moving(start, 0, hull, kHullMaterial);
  Point push;
  push.x = random.uniform(-kInitialRandom, kInitialRandom);
  push.y = random.uniform(-kInitialRandom, kInitialRandom);
  lander_->ApplyForceToCenter(push, true);
  if (options_.enable_wind) wind_ = random.integers(-9999, 9999), torque_ = random.integers(-9999, 9999);
  for (int leg = 0; leg < 2; ++leg) {
    const int side = 2 * leg - 1;
    legs_[leg] = scene_.moving({start.x - side * kLegAway / kScale, start.y}, side * 0.05, box(2 / kScale, 8 / kScale),
                               kLegMaterial);
    const double lower = side < 0 ? 0.9 - 0.5 : -0.9, upper = side < 0 ? 0.9 : -0.9 + 0.5;
    scene_.hinge({lander_,
                  legs_[leg],
                  {0, 0},
                  {side * kLegAway / kScale, kLegDown / kScale},
                  lower,
                  upper,
                  0.3 * side,
                  kLegTorque});
  }
}

StepResult LunarLander::advance(const Move& throttles, NumpyGenerator& random) {
  if (options_.enable_wind && !on_ground_[0] && !on_ground_[1]) blow();
  const double main = std::clamp(throttles[0], -1.0f, 1.0f), side = std::clamp(throttles[1], -1.0f, 1.0f);
  std::array<double, 2> dispersion;
  for (auto& d : dispersion) d = random.uniform(-1, 1) / kScale;
  main_power_ = main > 0 ? (main + 1) * 0.5 : 0;
  side_power_ = std::abs(side) > 0.5 ? std::abs(side) : 0;
  direction_ = side > 0 ? 1 : -1;
  if (main_power_ > 0) fire_main(dispersion);
  if (side_power_ > 0) fire_side(dispersion, direction_);
  scene_.step(1 / kFps);

  const b2Vec2 position = lander_->GetPosition(), velocity = lander_->GetLinearVelocity();
  state_ = {(position.x - kW / 2) / (kW / 2),
            (position.y - (kPad + kLegDown / kScale)) / (kH / 2),
            velocity.x * (kW / 2) / kFps,
            velocity.y * (kH / 2) / kFps,
            lander_->GetAngle(),
            20.0 * lander_->GetAngularVelocity() / kFps,
            on_ground_[0] ? 1.0 : 0.0,
            on_ground_[1] ? 1.0 : 0.0};
  const double worth = shaping();
  double reward = shaped_ ? worth - *shaped_ : 0;
  shaped_ = worth;
  reward -= main_power_ * 0.30;
  reward -= side_power_ * 0.03;
  if (!lander_->IsAwake()) return {100, true, false};
  if (crashed_ || std::abs(state_[0]) >= 1) return {-100, true, false};
  return {static_cast<float>(reward), false, false};
}

void LunarLander::blow() {
  lander_->ApplyForceToCenter(Point{gust(wind_++) * options_.wind_power, 0}, true);
  lander_->ApplyTorque(static_cast<float>(gust(torque_++) * options_.turbulence_power), true);
}

void LunarLander::fire_main(const std::array<double, 2>& dispersion) {
  const double sin = std::sin(lander_->GetAngle() + 0.0), cos = std::cos(lander_->GetAngle() + 0.0);
  const double down = kMainY / kScale + 2 * dispersion[0];
  const double x = sin * down + -cos * dispersion[1], y = -cos * down - sin * dispersion[1];
  const b2Vec2 position = lander_->GetPosition();
  lander_->ApplyLinearImpulse(Point{-x * kMainPower * main_power_, -y * kMainPower * main_power_},
                              Point{position.x + x, position.y + y}, true);
}

// The lander's side is pushed 17 down along its axis in x, and 14 in y: the original does so.
void LunarLander::fire_side(const std::array<double, 2>& dispersion, double direction) {
  const double sin = std::sin(lander_->GetAngle() + 0.0), cos = std::cos(lander_->GetAngle() + 0.0);
  const double away = 3 * dispersion[1] + direction * kSideAway / kScale;
  const double x = sin * dispersion[0] + -cos * away, y = -cos * dispersion[0] - sin * away;
  const b2Vec2 position = lander_->GetPosition();
  lander_->ApplyLinearImpulse(Point{-x * kSidePower * side_power_, -y * kSidePower * side_power_},
                              Point{position.x + x - sin * 17 / kScale, position.y + y + cos * kSideHeight / kScale},
                              true);
}

double LunarLander::shaping() const {
  return -100 * length(state_[0], state_[1]) - 100 * length(state_[2], state_[3]) - 100 * std::abs(state_[4]) +
         10 * state_[6] + 10 * state_[7];
}

void LunarLander::observe(std::span<float> out) const {
  std::ranges::transform(state_, out.begin(), [](double x) { return static_cast<float>(x); });
}

void LunarLander::render(std::uint8_t* rgb) const {
  Canvas canvas(rgb, kWidth, kHeight, kScale);
  canvas.fill({255, 255, 255});
  for (int i = 0; i + 1 < kChunks; ++i) {
    const Point &a = surface_[i], &b = surface_[i + 1];
    canvas.polygon(std::array<Point, 4>{a, b, {b.x, kH}, {a.x, kH}}, {0, 0, 0});
  }
  for (const int chunk : {kChunks / 2 - 1, kChunks / 2 + 1}) {
    const double x = surface_[chunk].x, top = kPad + 50 / kScale;
    canvas.line({x, kPad}, {x, top}, 1, {255, 255, 255});
    const std::array<Point, 3> flag{{{x, top}, {x, top - 10 / kScale}, {x + 25 / kScale, top - 5 / kScale}}};
    canvas.polygon(flag, kFlag);
  }
  if (lander_ == nullptr) return;
  const auto flame = [&](Point from, Point to, double width) {
    const Point across = from.x == to.x ? Point{width, 0} : Point{0, width};
    const b2Vec2 tip = lander_->GetWorldPoint(to);
    const b2Vec2 a = lander_->GetWorldPoint(Point{from.x - across.x, from.y - across.y});
    const b2Vec2 b = lander_->GetWorldPoint(Point{from.x + across.x, from.y + across.y});
    canvas.polygon(std::array<Point, 3>{{{a.x, a.y}, {b.x, b.y}, {tip.x, tip.y}}}, kFlame);
  };
  if (main_power_ > 0) flame({0, -10 / kScale}, {0, (-10 - 25 * main_power_) / kScale}, 5 / kScale);
  if (side_power_ > 0) {
    const double x = direction_ * 17 / kScale;
    flame({x, kSideHeight / kScale}, {x + direction_ * 12 * side_power_ / kScale, kSideHeight / kScale}, 3 / kScale);
  }
  for (const b2Body* body : {static_cast<const b2Body*>(lander_), static_cast<const b2Body*>(legs_[0]),
                             static_cast<const b2Body*>(legs_[1])})
    canvas.body(*body, kHull, kOutline);
}

}  // namespace headrace::box2d
