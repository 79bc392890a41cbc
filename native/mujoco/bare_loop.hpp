// The price of MuJoCo alone: the limit against which a pool's speed is measured.
#pragma once

#include <mujoco/mujoco.h>

#include "after.hpp"
#include "physics.hpp"

namespace headrace::mujoco {

struct Replay {
  const double* states;    // [steps, num_envs, stateSize(signature)]: before each agent step
  const double* controls;  // [steps, num_envs, nu]
  int steps, num_envs;
  int signature;
  int frame_skip;
  After after;
  int num_threads;
};

// Returns the seconds that all agent steps of a replay take: threads share the environments, and meet at a barrier
// after each step of all environments. Each thread has one mjData or, with a stepper, as many as the stepper takes at
// once; mj_step does the rest.
double bare_loop(const mjModel& model, const Replay& replay, const MakeStepper& make_stepper = {});

}  // namespace headrace::mujoco
