// The loss of proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347) for a block of samples: its gradient
// by the network's outputs, and statistics. The formulas are those of `PPO` in ppo.py.
#pragma once

#include <cmath>
#include <cstdint>

#include "learner/learner.hpp"

namespace headrace::learner {
namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;

// one sample's distribution: the action's log-probability and the entropy, and the gradient of both by the outputs
struct Choice {
  const float* logits;
  int n;
  std::int64_t action;
  float* p;  // probabilities, written here
  float log_sum = 0, entropy = 0;

  float evaluate() {
    float most = logits[0], sum = 0, mean = 0;
    for (int i = 1; i < n; ++i) most = std::fmax(most, logits[i]);
    for (int i = 0; i < n; ++i) sum += p[i] = std::exp(logits[i] - most);
    log_sum = most + std::log(sum);
    for (int i = 0; i < n; ++i) p[i] /= sum, mean += p[i] * logits[i];
    entropy = log_sum - mean;
    return logits[action] - log_sum;
  }

  // d log p(a)/d logits = onehot(a) - p; d H/d logits = -p (log p + H)
  void gradient(float d_log_prob, float d_entropy, float* d) const {
    for (int i = 0; i < n; ++i) d[i] = -p[i] * (d_log_prob + d_entropy * (logits[i] - log_sum + entropy));
    d[action] += d_log_prob;
  }
};

struct Normal {
  const float *means, *log_std, *inverse_std, *action;
  int n;
  float entropy = 0;

  float evaluate() {
    float squares = 0, deviations = 0;
    for (int i = 0; i < n; ++i) {
      const float z = (action[i] - means[i]) * inverse_std[i];
      squares += z * z, deviations += log_std[i];
    }
    const auto constant = static_cast<float>(kHalfLogTwoPi * n);
    entropy = deviations + constant + 0.5f * static_cast<float>(n);
    return -0.5f * squares - deviations - constant;
  }

  // d log p/d mean = z/std; d log p/d log_std = z² - 1; d H/d log_std = 1
  void gradient(float d_log_prob, float d_entropy, float* d, float* d_log_std) const {
    for (int i = 0; i < n; ++i) {
      const float z = (action[i] - means[i]) * inverse_std[i];
      d[i] = z * inverse_std[i] * d_log_prob;
      d_log_std[i] += (z * z - 1) * d_log_prob + d_entropy;
    }
  }
};

// the derivative of the policy's objective min(r A, clip(r) A) by the log-probability, and statistics
inline float surrogate(float log_prob, float before, float advantage, float clip, bool measured, Statistics& sums) {
  const float log_ratio = log_prob - before, ratio = std::exp(log_ratio);
  const float free = advantage * ratio, clipped = advantage * std::fmin(std::fmax(ratio, 1 - clip), 1 + clip);
  sums.policy_loss -= std::fmin(free, clipped);
  if (measured) {
    sums.approx_kl += ratio - 1 - log_ratio;  // Schulman's low-variance estimate
    sums.clip_fraction += std::fabs(ratio - 1) > clip;
  }
  return free <= clipped ? free : 0;
}

// the derivative of half the squared error, or of the larger one where changes of values are clipped
inline float value_slope(float value, float before, float target, float clip, Statistics& sums) {
  const float error = value - target;
  if (clip < 0) return sums.value_loss += error * error / 2, error;
  const float change = value - before, limited = std::fmin(std::fmax(change, -clip), clip);
  const float limited_error = before + limited - target;
  const bool larger = error * error >= limited_error * limited_error;
  sums.value_loss += (larger ? error * error : limited_error * limited_error) / 2;
  return larger || change == limited ? error : 0;
}

}  // namespace
}  // namespace headrace::learner
