#include "step.hpp"

namespace headrace::lanes {

Core* make_float_1(const Plan& plan) { return new Lanes<Vec<1, float>>(plan); }

}  // namespace headrace::lanes
