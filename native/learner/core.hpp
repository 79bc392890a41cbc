// A learner for one width of registers.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "dense.hpp"
#include "losses.hpp"

namespace headrace::learner {
namespace {

template <class V>
class Core final : public Learner {
 public:
  explicit Core(Network network) : network_(std::move(network)), inputs_(static_cast<std::size_t>(kRows * distance(network_.inputs))) {
    for (const Stack& stack : network_.stacks) stacks_.emplace_back(stack, network_.activation);
    for (const auto& stack : stacks_) outputs_ += stack.outputs();
    all_.resize(static_cast<std::size_t>(kRows * outputs_));
    gradients_.resize(all_.size());
    Core::refresh();
  }

  void refresh() override {
    for (auto& stack : stacks_) stack.pack();
  }

  void forward(const float* inputs, int rows, float* outputs) override {
    for (int first = 0; first < rows; first += kRows) {
      const int n = std::min(kRows, rows - first);
      for (int r = 0; r < n; ++r) take(inputs + static_cast<std::ptrdiff_t>(first + r) * network_.inputs, r);
      run(n, outputs + static_cast<std::ptrdiff_t>(first) * outputs_);
    }
  }

  void backward(const float* inputs, int rows, const float* output_gradients) override {
    for (auto& stack : stacks_) stack.clear_gradients();
    for (int first = 0; first < rows; first += kRows) {
      const int n = std::min(kRows, rows - first);
      for (int r = 0; r < n; ++r) take(inputs + static_cast<std::ptrdiff_t>(first + r) * network_.inputs, r);
      run(n, all_.data());
      run_back(n, output_gradients + static_cast<std::ptrdiff_t>(first) * outputs_);
    }
    for (const auto& stack : stacks_) stack.write_gradients();
  }

  Statistics epoch(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int minibatches, int size,
                   const Rates& rates, const Adam& adam, std::int64_t steps) override {
    Statistics sums;
    for (int i = 0; i < minibatches; ++i, order += size) {
      gradient_of(heads, rollout, order, size, rates, sums);
      sums.gradient_norm += descend(adam, rates, ++steps);
      refresh();
    }
    const double share = 1.0 / (static_cast<double>(minibatches) * size);
    for (double* each : {&sums.policy_loss, &sums.value_loss, &sums.entropy, &sums.approx_kl, &sums.clip_fraction}) *each *= share;
    sums.gradient_norm /= minibatches;
    return sums;
  }

 private:
  void take(const float* row, int r) { std::copy_n(row, network_.inputs, inputs_.get() + r * distance(network_.inputs)); }

  // outputs [rows, all] of the block's inputs
  void run(int rows, float* outputs) {
    int first = 0;
    for (auto& stack : stacks_) {
      stack.forward(inputs_.get(), rows);
      for (int r = 0; r < rows; ++r) std::copy_n(stack.results() + r * stack.stride(), stack.outputs(), outputs + r * outputs_ + first);
      first += stack.outputs();
    }
  }

  // adds to the gradients of parameters
  void run_back(int rows, const float* d) {
    int first = 0;
    for (auto& stack : stacks_) {
      for (int r = 0; r < rows; ++r) std::copy_n(d + r * outputs_ + first, stack.outputs(), stack.result_gradients() + r * stack.stride());
      stack.backward(inputs_.get(), rows);
      first += stack.outputs();
    }
  }

  // of one minibatch, into the memory of the parameters' gradients
  void gradient_of(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int size, const Rates& rates,
                   Statistics& sums) {
    for (auto& stack : stacks_) stack.clear_gradients();
    const auto [mean, scale] = moments(rollout.advantages, order, size, rates.normalise_advantages);
    log_std_gradient_.assign(static_cast<std::size_t>(heads.choices), 0.0f);
    scratch_.resize(static_cast<std::size_t>(heads.choices));
    for (int i = 0; heads.continuous && i < heads.choices; ++i) scratch_[static_cast<std::size_t>(i)] = std::exp(-heads.log_std[i]);
    const float share = 1.0f / static_cast<float>(size);
    for (int first = 0; first < size; first += kRows) {
      const int n = std::min(kRows, size - first);
      for (int r = 0; r < n; ++r) take(rollout.inputs + order[first + r] * network_.inputs, r);
      run(n, all_.data());
      for (int r = 0; r < n; ++r) {
        const float advantage = (rollout.advantages[order[first + r]] - mean) * scale;
        add_loss(heads, rollout, order[first + r], advantage, rates, share, all_.data() + r * outputs_, gradients_.data() + r * outputs_, sums);
      }
      run_back(n, gradients_.data());
    }
    for (const auto& stack : stacks_) stack.write_gradients();
    if (heads.continuous) std::copy_n(log_std_gradient_.data(), heads.choices, heads.log_std_gradient);
  }

  // one sample's part of the loss: d is its gradient by the outputs
  void add_loss(const ActorCritic& heads, const Rollout& rollout, std::int64_t row, float advantage, const Rates& rates, float share,
                const float* outputs, float* d, Statistics& sums) {
    const auto clip = static_cast<float>(rates.clip_range);
    const float d_entropy = -static_cast<float>(rates.entropy_coef) * share;
    if (heads.continuous) {
      Normal normal{outputs, heads.log_std, scratch_.data(), rollout.actions + row * heads.choices, heads.choices};
      const float slope = surrogate(normal.evaluate(), rollout.log_probs[row], advantage, clip, sums);
      normal.gradient(-slope * share, d_entropy, d, log_std_gradient_.data());
      sums.entropy += normal.entropy;
    } else {
      Choice choice{outputs, heads.choices, rollout.choices[row], scratch_.data()};
      const float slope = surrogate(choice.evaluate(), rollout.log_probs[row], advantage, clip, sums);
      choice.gradient(-slope * share, d_entropy, d);
      sums.entropy += choice.entropy;
    }
    const float slope = value_slope(outputs[heads.value], rollout.values[row], rollout.returns[row], static_cast<float>(rates.value_clip_range), sums);
    d[heads.value] = slope * static_cast<float>(rates.value_coef) * share;
  }

  // what makes a minibatch's advantages have mean 0 and standard deviation 1
  static std::pair<float, float> moments(const float* advantages, const std::int64_t* order, int size, bool normalise) {
    if (!normalise || size < 2) return {0.0f, 1.0f};
    double sum = 0, squares = 0;
    for (int i = 0; i < size; ++i) sum += advantages[order[i]];
    const double mean = sum / size;
    for (int i = 0; i < size; ++i) squares += (advantages[order[i]] - mean) * (advantages[order[i]] - mean);
    return {static_cast<float>(mean), static_cast<float>(1 / (std::sqrt(squares / (size - 1)) + 1e-8))};
  }

  // the sum of n squares, of which every sixteenth are added up first
  static double squares(const float* x, std::int64_t n) {
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

  // A step of Adam (Kingma & Ba 2015) with the gradient clipped to a norm; returns the norm before.
  static double descend(const Adam& adam, const Rates& rates, std::int64_t step) {
    const double norm = std::sqrt(squares(adam.gradient, adam.size));
    const V scale(std::min(1.0, rates.max_grad_norm / (norm + 1e-6)));
    const auto n = static_cast<double>(step);
    const V beta1(adam.beta1), beta2(adam.beta2), rest1(1 - adam.beta1), rest2(1 - adam.beta2), epsilon(adam.epsilon);
    const V rate(rates.learning_rate / (1 - std::pow(adam.beta1, n))), whole(1 / std::sqrt(1 - std::pow(adam.beta2, n)));
    for (std::int64_t i = 0; i < adam.size; i += V::width) {
      const V g = load<V>(adam.gradient + i) * scale;
      const V mean = fma(beta1, load<V>(adam.mean + i), rest1 * g), square = fma(beta2, load<V>(adam.square + i), rest2 * (g * g));
      store(adam.gradient + i, g), store(adam.mean + i, mean), store(adam.square + i, square);
      store(adam.parameters + i, load<V>(adam.parameters + i) - rate * mean / fma(sqrt(square), whole, epsilon));
    }
    return norm;
  }

  Network network_;
  std::vector<Layers<V>> stacks_;
  int outputs_ = 0;
  Floats inputs_;                         // a block's, [rows, inputs], padded
  std::vector<float> all_, gradients_;    // its outputs, and the loss's gradient by them: [rows, outputs]
  std::vector<float> scratch_, log_std_gradient_;
};

}  // namespace
}  // namespace headrace::learner
