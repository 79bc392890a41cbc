// Which constraints and contacts a model can have, and how stiff each is.
#pragma once

#include <mujoco/mujoco.h>

#include "plan.hpp"

namespace headrace::lanes {

// fills geoms, pairs, blocks and columns of a plan that knows the tree and the tendons
void read_constraints(Plan& plan, const mjModel& model);

// the degrees of freedom that move a body, in order
std::vector<int> dofs_above(const mjModel& model, int body);

}  // namespace headrace::lanes
