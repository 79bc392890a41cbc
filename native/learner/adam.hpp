// Adam (Kingma & Ba 2015) and RAdam (Liu et al. 2020, arXiv:1908.03265) over flat vectors.
#pragma once

#include <cmath>

#include "learner.hpp"
#include "product.hpp"

namespace headrace::learner {
namespace {

// the sum of n squares, of which every sixteenth are added up first
template <class V>
inline double squares(const float* x, std::int64_t n) {
  V sums[kPad / V::width];
  for (V& sum : sums) sum = V(0);
  for (std::int64_t i = 0; i < n; i += kPad)
    for (int k = 0; k < kPad / V::width; ++k) {
      const V v = load<V>(x + i + k * V::width);
      sums[k] = fma(v, v, sums[k]);
    }
  double total = 0;
  for (const V& sum : sums)
    for (int k = 0; k < V::width; ++k) total += lanes::lane(sum, k);
  return total;
}

template <class V>
inline void add(float* to, const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += V::width) store(to + i, load<V>(to + i) + load<V>(x + i));
}

// A step with the gradient clipped to a norm, which may be infinite; returns the norm before, or 0 where none is needed.
template <class V>
inline double adam_step(const Adam& adam, double learning_rate, double max_norm) {
  const double norm = std::isinf(max_norm) ? 0 : std::sqrt(squares<V>(adam.gradient, adam.size));
  const V scale(std::min(1.0, max_norm / (norm + 1e-6)));
  const double n = *adam.steps += 1;
  const V beta1(adam.beta1), beta2(adam.beta2), rest1(1 - adam.beta1), rest2(1 - adam.beta2), epsilon(adam.epsilon);
  const V rate(learning_rate / (1 - std::pow(adam.beta1, n))), whole(1 / std::sqrt(1 - std::pow(adam.beta2, n)));
  for (std::int64_t i = 0; i < adam.size; i += V::width) {
    const V g = load<V>(adam.gradient + i) * scale;
    const V mean = fma(beta1, load<V>(adam.mean + i), rest1 * g),
            square = fma(beta2, load<V>(adam.square + i), rest2 * (g * g));
    store(adam.gradient + i, g), store(adam.mean + i, mean), store(adam.square + i, square);
    store(adam.parameters + i, load<V>(adam.parameters + i) - rate * mean / fma(sqrt(square), whole, epsilon));
  }
  return norm;
}

// As `adam_step`, of RAdam: while the second moments have been estimated from too few steps, it goes by the first alone.
template <class V>
inline double radam_step(const Adam& adam, double learning_rate, double max_norm) {
  const double norm = std::isinf(max_norm) ? 0 : std::sqrt(squares<V>(adam.gradient, adam.size));
  const V clip(std::min(1.0, max_norm / (norm + 1e-6)));
  const double n = *adam.steps += 1, left = 1 - std::pow(adam.beta2, n);
  const double longest = 2 / (1 - adam.beta2) - 1, length = longest - 2 * n * (1 - left) / left;
  const bool known = length > 5;
  const double rest =
      (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);  // of the variance
  const V beta2(adam.beta2), rest1(1 - adam.beta1), rest2(1 - adam.beta2), epsilon(adam.epsilon);
  const V rate(learning_rate / (1 - std::pow(adam.beta1, n))), scale(known ? std::sqrt(rest * left) : 0);
  for (std::int64_t i = 0; i < adam.size; i += V::width) {
    const V g = load<V>(adam.gradient + i) * clip, before = load<V>(adam.mean + i);
    const V mean = fma(rest1, g - before, before), square = fma(beta2, load<V>(adam.square + i), rest2 * (g * g));
    store(adam.gradient + i, g), store(adam.mean + i, mean), store(adam.square + i, square);
    const V step = known ? mean * scale / (sqrt(square) + epsilon) : mean;
    store(adam.parameters + i, load<V>(adam.parameters + i) - step * rate);
  }
  return norm;
}

}  // namespace
}  // namespace headrace::learner
