// What learners are made by: for each width of registers, and for products of bfloat16.
#pragma once

#include "learner.hpp"

namespace headrace::learner {

struct Makers {
  Learner* (*learner)(Network);
  ActorCriticLearner* (*actor_critic)(ActorCriticNetworks);
  QLearner* (*q)(QNetworks);
  ValueLearner* (*values)(Network, Adam);
};

// each is compiled for the processors that have such registers
Makers makers_1();
Makers makers_8();
Makers makers_16();
Makers makers_bfloat16_dots();
Makers makers_bfloat16_tiles();

}  // namespace headrace::learner
