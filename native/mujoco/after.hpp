// Computations after the last mj_step of an agent step, beside those of mj_step.
#pragma once

#include <mujoco/mujoco.h>

namespace headrace::mujoco {

struct After {
  bool kinematics = false;  // positions and velocities of the new state, and the sensors that follow from them
  bool forces = false;      // mj_rnePostConstraint is called, for the last step
  bool all = false;  // with kinematics: contacts, constraints, actuators' lengths and energies of the new state, too
};

// Computes positions and velocities of the new state, and the sensors that follow from them, as mj_step1 would. Without
// `all` it leaves out collisions and constraints, for a fraction of the price.
void update_kinematics(const mjModel& model, mjData& data, bool all);

void compute_after(const mjModel& model, mjData& data, const After& after);

}  // namespace headrace::mujoco
