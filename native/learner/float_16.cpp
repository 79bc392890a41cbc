#include "cores.hpp"

namespace headrace::learner {

Makers makers_16() { return makers<Vec<16, float>, Dense<Vec<16, float>>>(); }

}  // namespace headrace::learner
