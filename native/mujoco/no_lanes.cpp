// Where native/lanes has no sources: nothing is stepped in lanes.
#include "lanes/lanes.hpp"

namespace headrace::lanes {

std::vector<int> widths() { return {}; }

std::unique_ptr<Stepper> make_stepper(std::shared_ptr<const mjModel>, const Wanted&, int) {
  throw Unsupported("any model: this build has no lanes");
}

}  // namespace headrace::lanes
