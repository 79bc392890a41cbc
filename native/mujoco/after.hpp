// What is computed after the last mj_step of an agent step, beside what mj_step leaves.
#pragma once

#include <mujoco/mujoco.h>

namespace headrace::mujoco {

struct After {
  bool kinematics = false;  // positions and velocities of the new state, and the sensors that follow from them
  bool forces = false;      // mj_rnePostConstraint
};

void compute_after(const mjModel& model, mjData& data, const After& after);

}  // namespace headrace::mujoco
