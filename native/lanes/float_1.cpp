#include "step.hpp"

namespace headrace::lanes {

Core* HEADRACE_LANES_MAKE(float_1)(const Plan& plan) { return new Lanes<Vec<1, float>>(plan); }

}  // namespace headrace::lanes
