// Proximal policy optimisation of networks side by side.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "adam.hpp"
#include "encoder.hpp"
#include "ppo/ppo.hpp"
#include "two_threads.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class ProximalCore final : public Learner {
  static constexpr int kRows = D::kRows;
  // samples of a minibatch, and these times the parameters, from which each half has gradients of its own: some 100 µs
  // of work, as two threads that wait for each other need
  static constexpr std::ptrdiff_t kFewest = 128, kLarge = 8 << 20;

  // networks with a block's samples, and the sums of gradients and statistics over blocks
  struct Half {
    explicit Half(const Network& network) : encoder(network, kRows) {
      for (const Stack& stack : network.stacks) stacks.emplace_back(stack, network.activation);
    }
    void pack() {
      encoder.pack();
      for (auto& stack : stacks) stack.pack();
    }
    void write_gradients() const {
      encoder.write_gradients();
      for (const auto& stack : stacks) stack.write_gradients();
    }

    Encoder<V, D> encoder;
    std::vector<Layers<V, D>> stacks;
    std::vector<float> outputs, gradients;  // the networks' outputs, and the loss's gradient by them: [rows, outputs]
    std::vector<float> scratch, allowed, log_std_gradient;
    Statistics sums;
  };

 public:
  explicit ProximalCore(Network network) : network_(std::move(network)) {
    halves_.emplace_back(network_);
    for (const auto& stack : halves_[0].stacks) outputs_ += stack.outputs();
    ProximalCore::refresh();
  }

  void refresh() override { halves_[0].pack(); }

  void forward(const Observations& inputs, int rows, float* outputs, bool keeps) override {
    for (int first = 0; first < rows; first += kRows)
      run(halves_[0], inputs, std::min(kRows, rows - first), [&](int r) { return first + r; }, keeps && rows <= kRows,
          outputs + static_cast<std::ptrdiff_t>(first) * outputs_);
  }

  void backward(const Observations& inputs, int rows, const float* output_gradients, bool kept) override {
    Half& all = halves_[0];
    all.outputs.resize(static_cast<std::size_t>(kRows * outputs_));
    for (int first = 0; first < rows; first += kRows) {
      const int n = std::min(kRows, rows - first);
      const auto row = [&](int r) { return first + r; };
      if (!kept || rows > kRows) run(all, inputs, n, row, true, all.outputs.data());
      run_back(all, inputs, n, row, output_gradients + static_cast<std::ptrdiff_t>(first) * outputs_, first == 0);
    }
    all.write_gradients();
  }

  Statistics epoch(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int minibatches,
                   int size, const Rates& rates, const Adam& adam, bool threads) override {
    const bool halved = size >= kFewest && size * adam.size >= kLarge;
    if (halved) halve(adam);
    Statistics sums;
    for (int i = 0; i < minibatches; ++i, order += size) {
      gradient_of(heads, rollout, order, size, halved ? size / 2 : 0, rates, adam, threads, sums);
      sums.gradient_norm += adam_step<V>(adam, rates.learning_rate, rates.max_grad_norm);
    }
    refresh();
    const double share = 1.0 / (static_cast<double>(minibatches) * size);
    for (double* each : {&sums.policy_loss, &sums.value_loss, &sums.entropy, &sums.approx_kl, &sums.clip_fraction})
      *each *= share;
    sums.gradient_norm /= minibatches;
    return sums;
  }

 private:
  // Makes the second half, whose gradients are this object's.
  void halve(const Adam& adam) {
    if (halved_ == adam.gradient) return;
    halved_ = adam.gradient;
    other_gradient_.assign(static_cast<std::size_t>(adam.size), 0.0f);
    while (halves_.size() > 1) halves_.pop_back();
    halves_.emplace_back(with_gradients(network_, adam.gradient, other_gradient_.data()));
  }

  // outputs [rows, all] of a block's inputs, of which the r-th has the number row(r)
  template <class Row>
  void run(Half& half, const Observations& inputs, int rows, Row row, bool comes_back, float* outputs) {
    half.encoder.encode(inputs, rows, row, comes_back, half.stacks.front().takes_sparse());
    int first = 0;
    for (auto& stack : half.stacks) {
      const float* results = stack.forward(half.encoder.inputs(), rows, half.encoder.sparse());
      for (int r = 0; r < rows; ++r)
        std::copy_n(results + r * stack.stride(), stack.outputs(), outputs + r * outputs_ + first);
      first += stack.outputs();
    }
  }

  // adds to the gradients of parameters, after those of the first block
  template <class Row>
  void run_back(Half& half, const Observations& inputs, int rows, Row row, const float* d, bool is_first) {
    int first = 0;
    for (auto& stack : half.stacks) {
      for (int r = 0; r < rows; ++r)
        std::copy_n(d + r * outputs_ + first, stack.outputs(), stack.result_gradients() + r * stack.stride());
      half.encoder.backward(stack, inputs, rows, row, is_first);
      first += stack.outputs();
    }
  }

  // of one minibatch, of whose samples the last `rest` are the second half's, into the memory of the parameters' gradients
  void gradient_of(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int size, int rest,
                   const Rates& rates, const Adam& adam, bool threads, Statistics& sums) {
    const auto centre = moments(rollout.advantages, order, size, rates.normalise_advantages);
    const float share = 1.0f / static_cast<float>(size);
    const auto work = [&](int k) {
      const int begin = k == 0 ? 0 : size - rest, end = k == 0 ? size - rest : size;
      gradient_of_half(halves_[static_cast<std::size_t>(k)], heads, rollout, order + begin, end - begin, rates, centre,
                       share);
    };
    if (rest > 0) {
      each_of_two(threads, work);
      add<V>(adam.gradient, other_gradient_.data(), adam.size);
    } else {
      work(0);
    }
    if (heads.continuous) std::fill_n(heads.log_std_gradient, heads.choices, 0.0f);
    for (int k = 0; k <= (rest > 0); ++k) {
      const Half& half = halves_[static_cast<std::size_t>(k)];
      for (int i = 0; heads.continuous && i < heads.choices; ++i)
        heads.log_std_gradient[i] += half.log_std_gradient[static_cast<std::size_t>(i)];
      sums.policy_loss += half.sums.policy_loss, sums.value_loss += half.sums.value_loss,
          sums.entropy += half.sums.entropy;
      sums.approx_kl += half.sums.approx_kl, sums.clip_fraction += half.sums.clip_fraction;
    }
  }

  void gradient_of_half(Half& half, const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order,
                        int size, const Rates& rates, std::pair<float, float> centre, float share) {
    half.pack();
    half.sums = {};
    half.outputs.resize(static_cast<std::size_t>(kRows * outputs_));
    half.gradients.resize(half.outputs.size());
    half.log_std_gradient.assign(static_cast<std::size_t>(heads.choices), 0.0f);
    half.scratch.resize(static_cast<std::size_t>(heads.choices));
    for (int i = 0; heads.continuous && i < heads.choices; ++i)
      half.scratch[static_cast<std::size_t>(i)] = std::exp(-heads.log_std[i]);
    for (int first = 0; first < size; first += kRows) {
      const int n = std::min(kRows, size - first);
      const auto row = [&](int r) { return order[first + r]; };
      run(half, rollout.inputs, n, row, true, half.outputs.data());
      for (int r = 0; r < n; ++r) {
        const float advantage = (rollout.advantages[order[first + r]] - centre.first) * centre.second;
        add_loss(half, heads, rollout, order[first + r], advantage, rates, share, half.outputs.data() + r * outputs_,
                 half.gradients.data() + r * outputs_);
      }
      run_back(half, rollout.inputs, n, row, half.gradients.data(), first == 0);
    }
    half.write_gradients();
  }

  // one sample's part of the loss: d is its gradient by the outputs
  static void add_loss(Half& half, const ActorCritic& heads, const Rollout& rollout, std::int64_t row, float advantage,
                       const Rates& rates, float share, const float* outputs, float* d) {
    const auto clip = static_cast<float>(rates.clip_range);
    const float d_entropy = -static_cast<float>(rates.entropy_coef) * share, predicted = outputs[heads.value];
    if (heads.continuous) {
      Normal normal{outputs, heads.log_std, half.scratch.data(), rollout.actions + row * heads.choices, heads.choices};
      const float slope = surrogate(normal.evaluate(), rollout.log_probs[row], advantage, clip, half.sums);
      normal.gradient(-slope * share, d_entropy, d, half.log_std_gradient.data());
      half.sums.entropy += normal.entropy;
    } else {
      if (rollout.forbidden != nullptr)
        outputs = lowered(outputs, rollout.forbidden + row * heads.choices, heads.choices, half.allowed);
      Choice choice{outputs, heads.choices, rollout.choices[row], half.scratch.data()};
      const float slope = surrogate(choice.evaluate(), rollout.log_probs[row], advantage, clip, half.sums);
      choice.gradient(-slope * share, d_entropy, d);
      half.sums.entropy += choice.entropy;
    }
    const float slope = value_slope(predicted, rollout.values[row], rollout.returns[row],
                                    static_cast<float>(rates.value_clip_range), half.sums);
    d[heads.value] = slope * static_cast<float>(rates.value_coef) * share;
  }

  // logits under which forbidden actions have probability 0, as headrace.train.modules.action_masks
  static const float* lowered(const float* logits, const bool* forbidden, int choices, std::vector<float>& into) {
    into.assign(logits, logits + choices);
    for (int i = 0; i < choices; ++i) into[static_cast<std::size_t>(i)] += forbidden[i] ? -1e9f : 0.0f;
    return into.data();
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

  Network network_;
  std::vector<Half> halves_;  // one, or two
  int outputs_ = 0;
  const float* halved_ = nullptr;  // the gradients that the second half's are laid out as
  std::vector<float> other_gradient_;  // of the second half
};

}  // namespace
}  // namespace headrace::learner
