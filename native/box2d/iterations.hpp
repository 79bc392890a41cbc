// Iterates over an island's velocity constraints for several worlds at once. Gymnasium asks Box2D for 180 iterations a
// step; they take most of its time, and each waits for the one before it. So similar worlds iterate side by side, one
// in each lane of a vector. Every number is computed as Box2D computes it (zeros may differ in sign).
#pragma once

#include <Box2D/Dynamics/Contacts/b2ContactSolver.h>
#include <Box2D/Dynamics/Joints/b2RevoluteJoint.h>
#include <Box2D/Dynamics/b2TimeStep.h>

#include <span>

namespace headrace::box2d {

// The constraints over which b2Island::Solve is about to iterate.
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

// Iterates over at most kLanes islands that fit each other.
void iterate(std::span<Iterations* const> islands);

// Returns whether islands of two worlds of one task have the same joints, and all their contacts are with fixed bodies.
bool fit(const Iterations& one, const Iterations& other);

}  // namespace headrace::box2d
