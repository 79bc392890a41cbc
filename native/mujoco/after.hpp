// What is computed after the last mj_step of an agent step, beside what mj_step leaves.
#pragma once

#include <mujoco/mujoco.h>

namespace headrace::mujoco {

struct After {
  bool kinematics = false;  // positions and velocities of the new state, and the sensors that follow from them
  bool forces = false;      // mj_rnePostConstraint, of the last step
  bool all = false;  // with kinematics: contacts, constraints, actuators' lengths and energies of the new state, too
};

// Positions and velocities of the new state, and the sensors that follow from them: what mj_step1 would leave. Without
// `all` there are no collisions and constraints, for a fraction of its price.
void update_kinematics(const mjModel& model, mjData& data, bool all);

void compute_after(const mjModel& model, mjData& data, const After& after);

}  // namespace headrace::mujoco
