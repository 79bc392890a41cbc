// Names the parts of a model, and of what is read of it, that cannot be stepped in lanes.
#pragma once

#include <mujoco/mujoco.h>

#include <string>
#include <string_view>

#include "plan.hpp"

namespace headrace::lanes {

// Throws Unsupported.
void check_model(const mjModel& model);
void check_wanted(const mjModel& model, const Wanted& wanted);
void read_varying(Plan& plan, const Wanted& wanted);  // notes which fields each lane has of its own
void check_varying(Plan& plan, const Wanted& wanted);  // and notes what a step reads of it

// Returns the name of one of MuJoCo's callbacks that is set and changes physics, or null.
const char* callback();

// Returns whether this field of mjData follows from positions and velocities, so that it exists for the new state.
bool is_renewed(const std::string& field);

// Returns whether the field or sensor takes contacts, constraints, actuators or the inertia matrix as well.
bool takes_all(const std::string& field);
bool takes_all(const mjModel& model, int sensor);

// Returns whether the sensor is among those that are read.
bool is_read(const mjModel& model, const Wanted& wanted, int sensor);

// Return whether lanes compute this sensor, or this field, for the states to which MuJoCo does.
bool is_computed(const mjModel& model, int sensor);
bool is_computed(const mjModel& model, std::string_view field);

}  // namespace headrace::lanes
