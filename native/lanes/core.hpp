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

// The same, for plans of models that differ between the lanes: the same files, compiled once more. Their steps look for
// each number's own values, which takes up to a twentieth of a small robot's time.
Core* make_double_1_differing(const Plan& plan);
Core* make_double_4_differing(const Plan& plan);
Core* make_double_8_differing(const Plan& plan);
Core* make_float_1_differing(const Plan& plan);
Core* make_float_8_differing(const Plan& plan);
Core* make_float_16_differing(const Plan& plan);

#ifdef HEADRACE_LANES_DIFFER
constexpr bool kDiffer = true;
#define HEADRACE_LANES_MAKE(kind) make_##kind##_differing
#else
constexpr bool kDiffer = false;
#define HEADRACE_LANES_MAKE(kind) make_##kind
#endif

}  // namespace headrace::lanes
