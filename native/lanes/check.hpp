// What of a model, and of what is read of it, cannot be stepped in lanes: said by name.
#pragma once

#include <mujoco/mujoco.h>

#include <string>

#include "plan.hpp"

namespace headrace::lanes {

// throws Unsupported
void check_model(const mjModel& model);
void check_wanted(const mjModel& model, const Wanted& wanted);
void read_varying(Plan& plan, const Wanted& wanted);  // and what of it a step reads

// the name of one of MuJoCo's callbacks that is set and changes physics, or null
const char* callback();

// does this field of mjData follow from positions and velocities alone?
bool is_kinematic(const std::string& field);

// is it among those that are read?
bool is_read(const mjModel& model, const Wanted& wanted, int sensor);

// do lanes compute this sensor of positions or velocities?
bool is_new_sensor(const mjModel& model, int sensor);

}  // namespace headrace::lanes
