// What is computed after the last mj_step of an agent step, beside what mj_step leaves.
#pragma once

#include <mujoco/mujoco.h>

namespace headrace::mujoco {

struct After {
  bool kinematics = false;  // positions and velocities of the new state, and the sensors that follow from them
  bool forces = false;      // mj_rnePostConstraint
};

// Positions and velocities of bodies, and the sensors that follow from them, without collisions and constraints: what
// mj_step1 would leave of these, for a fraction of its price.
void update_kinematics(const mjModel& model, mjData& data);

void compute_after(const mjModel& model, mjData& data, const After& after);

}  // namespace headrace::mujoco
