// Which constraints and contacts a model can have, and how stiff each is.
#pragma once

#include <mujoco/mujoco.h>

#include "plan.hpp"

namespace headrace::lanes {

// fills geoms, pairs, blocks and columns of a plan that knows the tree and the tendons
void read_constraints(Plan& plan, const mjModel& model);

}  // namespace headrace::lanes
