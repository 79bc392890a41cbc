#include "core.hpp"

namespace headrace::learner {

Learner* make_16(Network network) { return new Core<Vec<16, float>>(std::move(network)); }

}  // namespace headrace::learner
