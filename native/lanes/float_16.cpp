#include "step.hpp"

namespace headrace::lanes {

Core* HEADRACE_LANES_MAKE(float_16)(const Plan& plan) { return new Lanes<Vec<16, float>>(plan); }

}  // namespace headrace::lanes
