// One dimension of an action that is the tanh of a normal variable, as headrace.train.modules.exploration has it.
#pragma once

#include <cmath>
#include <utility>

#include "ppo/ppo.hpp"

namespace headrace::learner {
namespace {

struct SquashedNormal {
  static constexpr float kLeast = -20, kMost = 2;  // of the logarithms of deviations

  float action, log_prob, spread;
  bool free;  // whether the deviation has not been limited

  SquashedNormal() = default;

  // with u = mean + spread, log(1 - tanh² u) = 2 (log 2 - |u| - log(1 + exp(-2 |u|))), which is finite for all u
  SquashedNormal(float mean, float log_std, float noise) {
    const float limited = std::fmin(std::fmax(log_std, kLeast), kMost);
    spread = std::exp(limited) * noise;
    free = limited == log_std;
    const float u = mean + spread, size = std::fabs(u), rest = std::exp(-2 * size);
    action = std::copysign((1 - rest) / (1 + rest), u);
    const float squashing = 2 * (static_cast<float>(M_LN2) - size - std::log1p(rest));
    log_prob = -0.5f * noise * noise - limited - static_cast<float>(kHalfLogTwoPi) - squashing;
  }

  // of mean and logarithm of deviation: da/du = 1 - a²; d log p/du = 2 a; d log p/d log_std = 2 a spread - 1
  std::pair<float, float> gradient(float d_action, float d_log_prob) const {
    const float d = d_action * (1 - action * action) + 2 * action * d_log_prob;
    return {d, free ? d * spread - d_log_prob : 0.0f};
  }
};

}  // namespace
}  // namespace headrace::learner
