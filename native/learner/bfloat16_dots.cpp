#include "cores.hpp"
#include "dots.hpp"
#include "rounded.hpp"

namespace headrace::learner {

Makers makers_bfloat16_dots() { return makers<Wide, Rounded<Dots>>(); }

}  // namespace headrace::learner
