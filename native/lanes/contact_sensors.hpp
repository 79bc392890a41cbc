// Which contacts a sensor of contacts (<contact>) counts, as MuJoCo matches them by their geoms and bodies.
#pragma once

#include "plan.hpp"

namespace headrace::lanes {

// Returns whether no degree of freedom moves two bodies against each other.
bool are_one(const mjModel& model, int body1, int body2);

// Returns whether lanes know all contacts and numbers that the sensor shows.
bool are_contacts_known(const mjModel& model, int sensor);

// Reads the sensors of contacts among those of a plan, after its pairs.
void read_contact_sensors(Plan& plan);

}  // namespace headrace::lanes
