#include "step.hpp"

namespace headrace::lanes {

Core* make_core_1(const Plan& plan) { return new Lanes<Vec<1>>(plan); }

}  // namespace headrace::lanes
