#include "step.hpp"

namespace headrace::lanes {

Core* HEADRACE_LANES_MAKE(float_8)(const Plan& plan) { return new Lanes<Vec<8, float>>(plan); }

}  // namespace headrace::lanes
