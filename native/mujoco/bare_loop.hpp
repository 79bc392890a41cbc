// What MuJoCo alone costs: the limit that a pool's speed is measured against.
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

// Seconds to run every agent step of a replay, environments shared out among threads, and a barrier after each step
// of all environments. Each thread has one mjData, or with a stepper as many as this takes at once; mj_step does what
// it cannot.
double bare_loop(const mjModel& model, const Replay& replay, const MakeStepper& make_stepper = {});

}  // namespace headrace::mujoco
