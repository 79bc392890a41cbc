// The interface that each width of registers implements, in a file that is compiled for the processors that have it.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>

#include "plan.hpp"

namespace headrace::lanes {

class Core {
 public:
  virtual ~Core();
  // As Stepper::step; models may be null.
  virtual std::uint32_t step(mjData* const* data, const mjModel* const* models, int count, int steps) = 0;
};

// The plan must outlive the core; call these only on a processor that has the instructions.
Core* make_double_1(const Plan& plan);
Core* make_double_4(const Plan& plan);
Core* make_double_8(const Plan& plan);
Core* make_float_1(const Plan& plan);
Core* make_float_8(const Plan& plan);
Core* make_float_16(const Plan& plan);

}  // namespace headrace::lanes
