// The learners of one width of registers, or of products of bfloat16.
#pragma once

#include "actor_critic.hpp"
#include "proximal.hpp"
#include "makers.hpp"
#include "dqn/dqn.hpp"
#include "pqn/pqn.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
Makers makers() {
  return {[](Network network) -> Learner* { return new ProximalCore<V, D>(std::move(network)); },
          [](ActorCriticNetworks networks) -> ActorCriticLearner* {
            return new ActorCriticCore<V, D>(std::move(networks));
          },
          [](QNetworks networks) -> QLearner* { return new QCore<V, D>(std::move(networks)); },
          [](Network network, Adam radam) -> ValueLearner* { return new ValueCore<V, D>(std::move(network), radam); }};
}

}  // namespace
}  // namespace headrace::learner
