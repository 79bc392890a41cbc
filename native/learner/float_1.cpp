#include "cores.hpp"

namespace headrace::learner {

Makers makers_1() { return makers<Vec<1, float>, Dense<Vec<1, float>>>(); }

}  // namespace headrace::learner
