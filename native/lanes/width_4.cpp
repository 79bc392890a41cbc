#include "step.hpp"

namespace headrace::lanes {

Core* make_core_4(const Plan& plan) { return new Lanes<Vec<4>>(plan); }

}  // namespace headrace::lanes
