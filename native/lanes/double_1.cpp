#include "step.hpp"

namespace headrace::lanes {

Core* HEADRACE_LANES_MAKE(double_1)(const Plan& plan) { return new Lanes<Vec<1, double>>(plan); }

}  // namespace headrace::lanes
