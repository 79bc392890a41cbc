#include "step.hpp"

namespace headrace::lanes {

Core* make_float_8(const Plan& plan) { return new Lanes<Vec<8, float>>(plan); }

}  // namespace headrace::lanes
