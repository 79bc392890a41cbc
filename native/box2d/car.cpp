#include "car.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::box2d {
namespace {

constexpr double kSize = Car::kSize;
constexpr double kPower = 100000000 * kSize * kSize, kInertia = 4000 * kSize * kSize;
constexpr double kFriction = 1000000 * kSize * kSize, kGrassFriction = kFriction * 0.6;
constexpr double kSlip = 205000 * kSize * kSize;   // force a metre a second, while friction holds
constexpr double kSteerTorque = 180 * 900 * kSize * kSize, kSteerLimit = 0.4, kBrakeForce = 15;
constexpr Material kHullMaterial{.density = 1};
constexpr Material kWheelMaterial{.density = 0.1, .category = 0x0020, .mask = kGround};
constexpr std::array<Point, 4> kWheelPlaces{{{-55, 80}, {55, 80}, {-55, -82}, {55, -82}}};

b2PolygonShape scaled(std::initializer_list<Point> corners) {
  std::array<b2Vec2, b2_maxPolygonVertices> vertices;
  std::ranges::transform(corners, vertices.begin(),
                         [](const Point& p) -> b2Vec2 { return Point{p.x * kSize, p.y * kSize}; });
  b2PolygonShape shape;
  shape.Set(vertices.data(), static_cast<int>(corners.size()));
  return shape;
}

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

void steer(Wheel& wheel) {
  const double left = wheel.steer - wheel.joint->GetJointAngle();
  wheel.joint->SetMotorSpeed(static_cast<float>(sign(left) * std::min(50.0 * std::abs(left), 3.0)));
}

void turn(Wheel& wheel, double seconds) {
  wheel.omega += seconds * kPower * wheel.gas / kInertia / (std::abs(wheel.omega) + 5.0);
  if (wheel.brake >= 0.9) {
    wheel.omega = 0;
  } else if (wheel.brake > 0) {
    const double most = std::min(kBrakeForce * wheel.brake, std::abs(wheel.omega));
    wheel.omega += -sign(wheel.omega) * most;
  }
  wheel.phase += wheel.omega * seconds;
}

// The road pushes the wheel until it rolls, as far as friction holds.
void roll(Wheel& wheel, double seconds) {
  const double holds = wheel.tiles > 0 ? kFriction : kGrassFriction, radius = Car::kWheelRadius * kSize;
  const b2Vec2 forward = wheel.body->GetWorldVector({0, 1}), side = wheel.body->GetWorldVector({1, 0});
  const b2Vec2 v = wheel.body->GetLinearVelocity();
  const auto along = [&v](const b2Vec2& axis) {
    return static_cast<double>(axis.x) * v.x + static_cast<double>(axis.y) * v.y;
  };
  double ahead = (-along(forward) + wheel.omega * radius) * kSlip, aside = -along(side) * kSlip;
  const double force = std::sqrt(ahead * ahead + aside * aside);
  if (force > holds) {
    ahead = ahead / force * holds;
    aside = aside / force * holds;
  }
  wheel.omega -= seconds * ahead * radius / kInertia;
  wheel.body->ApplyForceToCenter(Point{aside * side.x + ahead * forward.x, aside * side.y + ahead * forward.y}, true);
}

}  // namespace

void Car::put(Scene& scene, const Point& position, double angle) {
  hull_ = scene.moving(position, angle, scaled({{-60, 130}, {60, 130}, {60, 110}, {-60, 110}}), kHullMaterial);
  add(*hull_, scaled({{-15, 120}, {15, 120}, {20, 20}, {-20, 20}}), kHullMaterial);
  add(*hull_, scaled({{25, 20}, {50, -10}, {50, -40}, {20, -90}, {-20, -90}, {-50, -40}, {-50, -10}, {-25, 20}}),
      kHullMaterial);
  add(*hull_, scaled({{-50, -120}, {50, -120}, {50, -90}, {-50, -90}}), kHullMaterial);
  const auto tyre = scaled({{-kWheelWidth, kWheelRadius},
                            {kWheelWidth, kWheelRadius},
                            {kWheelWidth, -kWheelRadius},
                            {-kWheelWidth, -kWheelRadius}});
  for (int i = 0; i < 4; ++i) {
    const Point place{kWheelPlaces[i].x * kSize, kWheelPlaces[i].y * kSize};
    wheels_[i] = {};
    wheels_[i].body = scene.moving({position.x + place.x, position.y + place.y}, angle, tyre, kWheelMaterial);
    wheels_[i].joint = scene.hinge({hull_, wheels_[i].body, place, {0, 0}, -kSteerLimit, kSteerLimit, 0, kSteerTorque});
  }
}

void Car::control(double steer, double gas, double brake) {
  for (int i = 0; i < 4; ++i) {
    Wheel& wheel = wheels_[i];
    if (i < 2) wheel.steer = steer;
    else
      wheel.gas +=
          std::min(std::clamp(gas, 0.0, 1.0) - wheel.gas, 0.1);  // the gas grows little by little, but stops at once
    wheel.brake = brake;
  }
}

void Car::push(double seconds) {
  for (auto& wheel : wheels_) {
    steer(wheel);
    turn(wheel, seconds);
    roll(wheel, seconds);
  }
}

Wheel* Car::wheel_of(const b2Body& body) {
  const auto found = std::ranges::find(wheels_, &body, &Wheel::body);
  return found == wheels_.end() ? nullptr : &*found;
}

}  // namespace headrace::box2d
