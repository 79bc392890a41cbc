#include "step.hpp"

namespace headrace::lanes {

Core* make_core_8(const Plan& plan) { return new Lanes<Vec<8>>(plan); }

}  // namespace headrace::lanes
