#include "cores.hpp"
#include "rounded.hpp"
#include "tiles.hpp"

namespace headrace::learner {

Makers makers_bfloat16_tiles() { return makers<Wide, Rounded<Tiles>>(); }

}  // namespace headrace::learner
