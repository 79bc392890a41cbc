// Adam (Kingma & Ba 2015) and RAdam (Liu et al. 2020, arXiv:1908.03265) over flat vectors.
#pragma once

#include <cmath>
#include <numeric>
#include <vector>

#include "learner.hpp"
#include "pieces.hpp"
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

// what a step of Adam does to each number
template <class V>
struct AdamRates {
  V scale, beta1, beta2, rest1, rest2, epsilon, rate, whole;

  void move(const Adam& adam, std::int64_t i) const {
    const V g = load<V>(adam.gradient + i) * scale;
    const V mean = fma(beta1, load<V>(adam.mean + i), rest1 * g),
            square = fma(beta2, load<V>(adam.square + i), rest2 * (g * g));
    store(adam.gradient + i, g), store(adam.mean + i, mean), store(adam.square + i, square);
    store(adam.parameters + i, load<V>(adam.parameters + i) - rate * mean / fma(sqrt(square), whole, epsilon));
  }
};

// and one of RAdam; known: whether the second moments count
template <class V>
struct RAdamRates {
  bool known;
  V clip, beta2, rest1, rest2, epsilon, rate, scale;

  void move(const Adam& adam, std::int64_t i) const {
    const V g = load<V>(adam.gradient + i) * clip, before = load<V>(adam.mean + i);
    const V mean = fma(rest1, g - before, before), square = fma(beta2, load<V>(adam.square + i), rest2 * (g * g));
    store(adam.gradient + i, g), store(adam.mean + i, mean), store(adam.square + i, square);
    const V step = known ? mean * scale / (sqrt(square) + epsilon) : mean;
    store(adam.parameters + i, load<V>(adam.parameters + i) - step * rate);
  }
};

// work(number, begin, end) of slices that are worth another thread; the squares of each are one sum
template <class Work>
inline void each_slice(std::int64_t size, int threads, const Work& work) {
  constexpr std::int64_t kSlice = 1 << 15;
  in_parts(threads, static_cast<int>((size + kSlice - 1) / kSlice),
           [&](int i, int) { work(static_cast<std::size_t>(i), i * kSlice, std::min((i + 1) * kSlice, size)); });
}

template <class V, class Rates>
inline void move_all(const Adam& adam, const Rates& rates, int threads) {
  each_slice(adam.size, threads, [&](std::size_t, std::int64_t begin, std::int64_t end) {
    const Rates mine = rates;  // which stores of numbers do not change
    const Adam vectors = adam;
    for (std::int64_t i = begin; i < end; i += V::width) mine.move(vectors, i);
  });
}

// the gradient's norm, or 0 where it may be infinite
template <class V>
inline double norm_of(const Adam& adam, double max_norm, int threads) {
  if (std::isinf(max_norm)) return 0;
  std::vector<double> sums;
  each_slice(adam.size, 1, [&](std::size_t, std::int64_t, std::int64_t) { sums.push_back(0); });
  each_slice(adam.size, threads, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
    sums[i] = squares<V>(adam.gradient + begin, end - begin);
  });
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

// A step with the gradient clipped to a norm, which may be infinite; returns the norm before, or 0 where none is needed.
template <class V>
inline double adam_step(const Adam& adam, double learning_rate, double max_norm, int threads = 1) {
  const double norm = norm_of<V>(adam, max_norm, threads);
  const double n = *adam.steps += 1;
  move_all<V>(adam,
              AdamRates<V>{V(std::min(1.0, max_norm / (norm + 1e-6))), V(adam.beta1), V(adam.beta2), V(1 - adam.beta1),
                           V(1 - adam.beta2), V(adam.epsilon), V(learning_rate / (1 - std::pow(adam.beta1, n))),
                           V(1 / std::sqrt(1 - std::pow(adam.beta2, n)))},
              threads);
  return norm;
}

// As `adam_step`, of RAdam: while the second moments have been estimated from too few steps, it goes by the first alone.
template <class V>
inline double radam_step(const Adam& adam, double learning_rate, double max_norm, int threads = 1) {
  const double norm = norm_of<V>(adam, max_norm, threads);
  const double n = *adam.steps += 1, left = 1 - std::pow(adam.beta2, n);
  const double longest = 2 / (1 - adam.beta2) - 1, length = longest - 2 * n * (1 - left) / left;
  const bool known = length > 5;
  const double rest =
      (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);  // of the variance
  move_all<V>(adam,
              RAdamRates<V>{known, V(std::min(1.0, max_norm / (norm + 1e-6))), V(adam.beta2), V(1 - adam.beta1),
                            V(1 - adam.beta2), V(adam.epsilon), V(learning_rate / (1 - std::pow(adam.beta1, n))),
                            V(known ? std::sqrt(rest * left) : 0)},
              threads);
  return norm;
}

}  // namespace
}  // namespace headrace::learner
