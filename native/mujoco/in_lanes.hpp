// What of MuJoCo's models and tasks can be stepped in lanes.
#pragma once

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "after.hpp"
#include "physics.hpp"

namespace headrace::mujoco {

// Makes steppers for a task that reads these fields of mjData and mjModel, by MuJoCo's names. What it returns throws
// lanes::Unsupported.
MakeStepper stepping_in_lanes(const std::vector<std::string>& reads, const After& after);

// why such a task's model is not stepped in lanes: what of it is not; empty where it is
std::string why_not_in_lanes(const mjModel& model, const std::vector<std::string>& reads, const After& after);

}  // namespace headrace::mujoco
