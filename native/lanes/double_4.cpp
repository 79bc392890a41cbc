#include "step.hpp"

namespace headrace::lanes {

Core* HEADRACE_LANES_MAKE(double_4)(const Plan& plan) { return new Lanes<Vec<4, double>>(plan); }

}  // namespace headrace::lanes
