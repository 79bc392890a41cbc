#include "step.hpp"

namespace headrace::lanes {

Core* make_double_8(const Plan& plan) { return new Lanes<Vec<8, double>>(plan); }

}  // namespace headrace::lanes
