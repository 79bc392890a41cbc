#include "scene.hpp"

#include <array>
#include <mutex>

namespace headrace::box2d {

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    Scene scene(-10, [](const b2Body&, const b2Body&, bool) {});
    scene.clear();
    scene.fixed(edge({-1, 0}, {1, 0}), {});
    scene.moving({0, 0}, 0, box(1, 1), {.density = 1});
    scene.step(0.02);
  });
}

b2PolygonShape polygon(std::initializer_list<Point> corners) {
  std::array<b2Vec2, b2_maxPolygonVertices> vertices;
  std::ranges::copy(corners, vertices.begin());
  b2PolygonShape shape;
  shape.Set(vertices.data(), static_cast<int>(corners.size()));
  return shape;
}

b2PolygonShape box(double half_width, double half_height) {
  b2PolygonShape shape;
  shape.SetAsBox(static_cast<float>(half_width), static_cast<float>(half_height));
  return shape;
}

b2EdgeShape edge(const Point& from, const Point& to) {
  b2EdgeShape shape;
  shape.Set(from, to);
  return shape;
}

void add(b2Body& body, const b2Shape& shape, const Material& material) {
  b2FixtureDef fixture;
  fixture.shape = &shape;
  fixture.density = static_cast<float>(material.density);
  fixture.friction = static_cast<float>(material.friction);
  fixture.filter.categoryBits = material.category;
  fixture.filter.maskBits = material.mask;
  fixture.isSensor = material.sensor;
  body.CreateFixture(&fixture);
}

void Scene::clear() {
  world_.emplace(b2Vec2(0, static_cast<float>(gravity_)));
  world_->SetContactListener(this);
}

b2Body* Scene::fixed(const b2Shape& shape, const Material& material) {
  const b2BodyDef def;
  b2Body* body = world_->CreateBody(&def);
  add(*body, shape, material);
  return body;
}

b2Body* Scene::moving(const Point& position, double angle, const b2Shape& shape, const Material& material) {
  b2BodyDef def;
  def.type = b2_dynamicBody;
  def.position = position;
  def.angle = static_cast<float>(angle);
  b2Body* body = world_->CreateBody(&def);
  add(*body, shape, material);
  return body;
}

b2RevoluteJoint* Scene::hinge(const Hinge& hinge) {
  b2RevoluteJointDef def;
  def.bodyA = hinge.a, def.bodyB = hinge.b;
  def.localAnchorA = hinge.anchor_a, def.localAnchorB = hinge.anchor_b;
  def.referenceAngle = hinge.b->GetAngle() - hinge.a->GetAngle();   // Box2D's Python binding does so
  def.enableMotor = def.enableLimit = true;
  def.lowerAngle = static_cast<float>(hinge.lower), def.upperAngle = static_cast<float>(hinge.upper);
  def.motorSpeed = static_cast<float>(hinge.speed), def.maxMotorTorque = static_cast<float>(hinge.torque);
  return static_cast<b2RevoluteJoint*>(world_->CreateJoint(&def));
}

void Scene::step(double seconds) {
  world_->Step(static_cast<float>(seconds), kVelocityIterations, kPositionIterations);
}

void Scene::tell(b2Contact& contact, bool touches) {
  const b2Body &a = *contact.GetFixtureA()->GetBody(), &b = *contact.GetFixtureB()->GetBody();
  if (a.GetType() == b2_dynamicBody) heard_(a, b, touches);
  if (b.GetType() == b2_dynamicBody) heard_(b, a, touches);
}

}  // namespace headrace::box2d
