#include "cores.hpp"

namespace headrace::learner {

Makers makers_8() { return makers<Vec<8, float>, Dense<Vec<8, float>>>(); }

}  // namespace headrace::learner
