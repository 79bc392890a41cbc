#include "cores.hpp"
#include "tiles.hpp"

namespace headrace::learner {

Makers makers_bfloat16() { return makers<Wide, Tiled>(); }

}  // namespace headrace::learner
