#include "core.hpp"

namespace headrace::learner {

Learner* make_8(Network network) { return new Core<Vec<8, float>>(std::move(network)); }

}  // namespace headrace::learner
