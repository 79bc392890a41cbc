#include "core.hpp"

namespace headrace::learner {

Learner* make_1(Network network) { return new Core<Vec<1, float>>(std::move(network)); }

}  // namespace headrace::learner
