// The iterations over an island's velocity constraints, of several worlds at once. Gymnasium asks Box2D for 180 of them
// a step, most of its time, and each waits for the one before it; so worlds that are alike iterate side by side, one in
// each lane of a vector. Every number is computed as Box2D computes it (zeros may differ in sign).
#pragma once

#include <Box2D/Dynamics/Contacts/b2ContactSolver.h>
#include <Box2D/Dynamics/Joints/b2RevoluteJoint.h>
#include <Box2D/Dynamics/b2TimeStep.h>

#include <span>

namespace headrace::box2d {

// what b2Island::Solve is about to iterate over
struct Iterations {
  b2Body** bodies;
  b2Velocity* velocities;
  int num_bodies;
  b2Joint** joints;  // revolute joints
  int num_joints;
  b2ContactSolver* contacts;
  b2TimeStep step;
};

constexpr int kLanes = 8;

// iterate over at most kLanes islands that fit each other
void iterate(std::span<Iterations* const> islands);

// whether islands of two worlds of one task have the same joints, and all contacts are with fixed bodies
bool fit(const Iterations& one, const Iterations& other);

}  // namespace headrace::box2d
