// The constraints and contacts that a model can have, and their stiffness.
#pragma once

#include <mujoco/mujoco.h>

#include "plan.hpp"

namespace headrace::lanes {

// Fills geoms, pairs, blocks and columns of a plan that knows the tree and the tendons.
void read_constraints(Plan& plan, const mjModel& model);

// Returns the degrees of freedom that move a body, in order.
std::vector<int> dofs_above(const mjModel& model, int body);

}  // namespace headrace::lanes
