#include "step.hpp"

namespace headrace::lanes {

Core* HEADRACE_LANES_MAKE(double_8)(const Plan& plan) { return new Lanes<Vec<8, double>>(plan); }

}  // namespace headrace::lanes
