// What of a model, and of what is read of it, cannot be stepped in lanes: said by name.
#pragma once

#include <mujoco/mujoco.h>

#include <string>
#include <string_view>

#include "plan.hpp"

namespace headrace::lanes {

// throws Unsupported
void check_model(const mjModel& model);
void check_wanted(const mjModel& model, const Wanted& wanted);
void read_varying(Plan& plan, const Wanted& wanted);  // and what of it a step reads

// the name of one of MuJoCo's callbacks that is set and changes physics, or null
const char* callback();

// does this field of mjData follow from positions and velocities, so that there is one of the new state?
bool is_renewed(const std::string& field);

// does it, or this sensor, take contacts, constraints, actuators or the inertia matrix as well?
bool takes_all(const std::string& field);
bool takes_all(const mjModel& model, int sensor);

// is it among those that are read?
bool is_read(const mjModel& model, const Wanted& wanted, int sensor);

// do lanes compute this sensor of positions or velocities; this field?
bool is_new_sensor(const mjModel& model, int sensor);
bool is_new_field(std::string_view field);

}  // namespace headrace::lanes
