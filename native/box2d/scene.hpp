// A world of Box2D with the bodies and joints of the tasks. Numbers are doubles, as in Gymnasium's Python, until Box2D
// takes them as floats.
#pragma once

#include <Box2D/Box2D.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

namespace headrace::box2d {

struct Point {
  double x = 0, y = 0;

  operator b2Vec2() const { return {static_cast<float>(x), static_cast<float>(y)}; }
};

constexpr std::uint16_t kGround = 0x0001;   // the default category of Box2D
constexpr int kVelocityIterations = 6 * 30, kPositionIterations = 2 * 30;

struct Material {
  double density = 0, friction = 0.2;       // Box2D's defaults
  std::uint16_t category = kGround, mask = 0xffff;
  bool sensor = false;                      // reports contacts, and stops nothing
};

struct Hinge {
  b2Body *a, *b;
  Point anchor_a, anchor_b;
  double lower, upper, speed, torque;
};

// Fills the tables that Box2D fills when they are first needed; call it before threads do.
void prepare();

b2PolygonShape polygon(std::initializer_list<Point> corners);
b2PolygonShape box(double half_width, double half_height);
b2EdgeShape edge(const Point& from, const Point& to);

// Makes a world without bodies; the listener hears of each contact of a moving body with another body.
class Scene final : private b2ContactListener {
 public:
  using Heard = std::function<void(const b2Body& body, const b2Body& other, bool touches)>;

  Scene(double gravity, Heard heard) : gravity_(gravity), heard_(std::move(heard)) {}

  void clear();
  b2World& world() { return *world_; }
  // Fixed bodies come before all bodies that move (cmake/Box2D.cmake).
  b2Body* fixed(const b2Shape& shape, const Material& material);
  b2Body* moving(const Point& position, double angle, const b2Shape& shape, const Material& material);
  b2RevoluteJoint* hinge(const Hinge& hinge);
  void step(double seconds);

 private:
  void BeginContact(b2Contact* contact) override { tell(*contact, true); }
  void EndContact(b2Contact* contact) override { tell(*contact, false); }
  void tell(b2Contact& contact, bool touches);

  double gravity_;
  Heard heard_;
  std::optional<b2World> world_;
};

void add(b2Body& body, const b2Shape& shape, const Material& material);

}  // namespace headrace::box2d
