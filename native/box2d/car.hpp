// A car seen from above, with a motor on the wheels behind, by the rules of Gymnasium's car_dynamics.py: a wheel rolls,
// and where friction cannot hold it, it slides. Each number is computed in the same order.
#pragma once

#include <array>

#include "scene.hpp"

namespace headrace::box2d {

struct Wheel {
  b2Body* body = nullptr;
  b2RevoluteJoint* joint = nullptr;
  double gas = 0, brake = 0, steer = 0;
  double phase = 0, omega = 0;  // the angle by which it has turned, and its velocity
  int tiles = 0;  // road tiles below it
};

class Car {
 public:
  static constexpr double kSize = 0.02;  // metres a unit
  static constexpr double kWheelRadius = 27, kWheelWidth = 14;

  // Puts the car into a new world. It belongs to no earlier one, whose bodies are gone.
  void put(Scene& scene, const Point& position, double angle);
  void control(double steer, double gas, double brake);
  void push(double seconds);

  const b2Body* hull() const { return hull_; }
  const std::array<Wheel, 4>& wheels() const { return wheels_; }  // in front left and right, behind
  Wheel* wheel_of(const b2Body& body);

 private:
  b2Body* hull_ = nullptr;
  std::array<Wheel, 4> wheels_{};
};

}  // namespace headrace::box2d
