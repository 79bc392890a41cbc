// Proximal policy optimisation of networks side by side.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "adam.hpp"
#include "networks.hpp"
#include "ppo/ppo.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class ProximalCore final : public Learner {
  static constexpr int kSlice = 8;  // samples whose statistics are one sum

  struct Slice {
    Statistics sums;
    std::vector<float> log_std_gradient;
  };
  struct Scratch {
    std::vector<float> probabilities, allowed;
  };

 public:
  explicit ProximalCore(const Network& network) : encoder_(network, D::kRows) {
    for (const Stack& stack : network.stacks) stacks_.emplace_back(stack, network.activation);
    for (auto& stack : stacks_) networks_.add(stack, encoder_), outputs_ += stack.outputs();
    networks_.add(encoder_);
    products_ = networks_.products();
    ProximalCore::refresh(1);
  }

  void refresh(int threads) override { networks_.pack(true, threads); }

  void forward(const Observations& inputs, int rows, float* outputs, bool keeps, int threads) override {
    const int block = reserve(rows, products_, threads);
    kept_ = keeps && rows <= block ? rows : 0;
    for (int first = 0; first < rows; first += block) {
      const auto row = [&](int r) { return first + r; };
      const Pieces pieces = begin(std::min(block, rows - first), products_, threads);
      pieces.each([&](const Piece& piece) {
        run(piece, inputs, row, kept_ > 0, outputs + static_cast<std::ptrdiff_t>(first) * outputs_);
      });
    }
  }

  void backward(const Observations& inputs, int rows, const float* output_gradients, bool kept, int threads) override {
    kept = kept && rows == kept_;
    const int block = kept ? rows : reserve(rows, 2 * products_, threads);
    for (int first = 0; first < rows; first += block) {
      const int n = std::min(block, rows - first);
      const auto row = [&](int r) { return first + r; };
      const Pieces pieces = kept ? Pieces(n, products_, threads, D::kGrain) : begin(n, 2 * products_, threads);
      pieces.each([&](const Piece& piece) {
        if (!kept) run(piece, inputs, row, true, block_outputs_.data());
        run_back(piece, inputs, row, output_gradients + static_cast<std::ptrdiff_t>(first) * outputs_);
      });
      networks_.add_gradients(n, first == 0, first + n == rows, threads);
    }
    kept_ = 0;
  }

  Statistics epoch(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int minibatches,
                   int size, const Rates& rates, const Adam& adam, int threads) override {
    Statistics sums;
    for (int i = 0; i < minibatches; ++i, order += size) {
      networks_.pack(true, threads);
      find_gradient(heads, rollout, order, size, rates, threads, sums);
      sums.gradient_norm += adam_step<V>(adam, rates.learning_rate, rates.max_grad_norm, threads);
    }
    refresh(threads);
    const double share = 1.0 / (static_cast<double>(minibatches) * size);
    for (double* each : {&sums.policy_loss, &sums.value_loss, &sums.entropy}) *each *= share;
    const int measured = rates.measured == 0 ? size : rates.measured;
    const double of_measured = 1.0 / (static_cast<double>(minibatches) * measured);
    for (double* each : {&sums.approx_kl, &sums.clip_fraction}) *each *= of_measured;
    sums.gradient_norm /= minibatches;
    return sums;
  }

 private:
  // Makes room for a block of some rows, of which each takes so many products, and returns its size.
  int reserve(int rows, double products, int threads) {
    threads = threads_for(rows * products, threads);
    const int block = rows_of_block<D>(rows, threads, encoder_.convolutions() > 0);
    encoder_.reserve(block, threads);
    if (static_cast<int>(scratch_.size()) < threads) scratch_.resize(static_cast<std::size_t>(threads));
    for (auto& stack : stacks_) stack.reserve(block);
    const auto numbers = static_cast<std::size_t>(block * outputs_);
    if (block_outputs_.size() < numbers) block_outputs_.resize(numbers), block_gradients_.resize(numbers);
    return block;
  }

  // the pieces of a block's rows, of which each takes so many products
  Pieces begin(int rows, double products, int threads) {
    const Pieces pieces(rows, products, threads, D::kGrain);
    encoder_.begin(pieces.count());
    return pieces;
  }

  // outputs [rows, all] of a piece of a block's inputs, of which the r-th has the number row(r)
  template <class Row>
  void run(const Piece& piece, const Observations& inputs, Row row, bool comes_back, float* outputs) {
    encoder_.encode(inputs, piece, row, comes_back, stacks_.front().takes_sparse());
    int first = 0;
    for (auto& stack : stacks_) {
      const float* results = stack.forward(encoder_.inputs(), piece.rows, encoder_.sparse(piece.number));
      for (int r = piece.rows.begin; r < piece.rows.end; ++r)
        std::copy_n(results + r * stack.stride(), stack.outputs(), outputs + r * outputs_ + first);
      first += stack.outputs();
    }
  }

  // what gradients d of a piece's outputs are within the networks
  template <class Row>
  void run_back(const Piece& piece, const Observations& inputs, Row row, const float* d) {
    int first = 0;
    for (auto& stack : stacks_) {
      for (int r = piece.rows.begin; r < piece.rows.end; ++r)
        std::copy_n(d + r * outputs_ + first, stack.outputs(), stack.result_gradients() + r * stack.stride());
      encoder_.come_back(stack, inputs, piece, row);
      first += stack.outputs();
    }
  }

  // of one minibatch, into the memory of the parameters' gradients
  void find_gradient(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int size,
                     const Rates& rates, int threads, Statistics& sums) {
    const auto centre = moments(rollout.advantages, order, size, rates.normalise_advantages);
    const float share = 1.0f / static_cast<float>(size);
    const int block = reserve(size, 2 * products_, threads), slices = (block + kSlice - 1) / kSlice;
    slices_.resize(static_cast<std::size_t>(slices));
    inverse_deviations_.clear();
    for (int i = 0; heads.continuous && i < heads.choices; ++i)
      inverse_deviations_.push_back(std::exp(-heads.log_std[i]));
    if (heads.continuous) std::fill_n(heads.log_std_gradient, heads.choices, 0.0f);
    for (auto& each : scratch_) each.probabilities.resize(static_cast<std::size_t>(heads.choices));
    for (int first = 0; first < size; first += block) {
      const int n = std::min(block, size - first);
      const auto row = [&](int r) { return order[first + r]; };
      begin(n, 2 * products_, threads).each([&](const Piece& piece) {
        run(piece, rollout.inputs, row, true, block_outputs_.data());
        for (int r = piece.rows.begin; r < piece.rows.end; ++r) {
          Slice& slice = slices_[static_cast<std::size_t>(r / kSlice)];
          if (r % kSlice == 0)
            slice.sums = {}, slice.log_std_gradient.assign(static_cast<std::size_t>(heads.choices), 0);
          const float advantage = (rollout.advantages[row(r)] - centre.first) * centre.second;
          const bool measured = rates.measured == 0 || first + r < rates.measured;
          add_loss(slice, scratch_[static_cast<std::size_t>(piece.thread)], heads, rollout, row(r), advantage, rates,
                   share, measured, block_outputs_.data() + r * outputs_, block_gradients_.data() + r * outputs_);
        }
        run_back(piece, rollout.inputs, row, block_gradients_.data());
      });
      networks_.add_gradients(n, first == 0, first + n == size, threads);
      for (int i = 0; i * kSlice < n; ++i) add_up(slices_[static_cast<std::size_t>(i)], heads, sums);
    }
  }

  static void add_up(const Slice& slice, const ActorCritic& heads, Statistics& sums) {
    for (int i = 0; heads.continuous && i < heads.choices; ++i)
      heads.log_std_gradient[i] += slice.log_std_gradient[static_cast<std::size_t>(i)];
    sums.policy_loss += slice.sums.policy_loss, sums.value_loss += slice.sums.value_loss;
    sums.entropy += slice.sums.entropy, sums.approx_kl += slice.sums.approx_kl;
    sums.clip_fraction += slice.sums.clip_fraction;
  }

  // one sample's part of the loss: d is its gradient by the outputs
  void add_loss(Slice& slice, Scratch& mine, const ActorCritic& heads, const Rollout& rollout, std::int64_t row,
                float advantage, const Rates& rates, float share, bool measured, const float* outputs, float* d) const {
    const auto clip = static_cast<float>(rates.clip_range);
    const float d_entropy = -static_cast<float>(rates.entropy_coef) * share, predicted = outputs[heads.value];
    if (heads.continuous) {
      Normal normal{outputs, heads.log_std, inverse_deviations_.data(), rollout.actions + row * heads.choices,
                    heads.choices};
      const float slope = surrogate(normal.evaluate(), rollout.log_probs[row], advantage, clip, measured, slice.sums);
      normal.gradient(-slope * share, d_entropy, d, slice.log_std_gradient.data());
      slice.sums.entropy += normal.entropy;
    } else {
      if (rollout.forbidden != nullptr)
        outputs = lowered(outputs, rollout.forbidden + row * heads.choices, heads.choices, mine.allowed);
      Choice choice{outputs, heads.choices, rollout.choices[row], mine.probabilities.data()};
      const float slope = surrogate(choice.evaluate(), rollout.log_probs[row], advantage, clip, measured, slice.sums);
      choice.gradient(-slope * share, d_entropy, d);
      slice.sums.entropy += choice.entropy;
    }
    const float slope = value_slope(predicted, rollout.values[row], rollout.returns[row],
                                    static_cast<float>(rates.value_clip_range), slice.sums);
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

  Encoder<V, D> encoder_;
  std::vector<Layers<V, D>> stacks_;
  Networks<V, D> networks_;
  double products_ = 0;  // of a row, forward
  int outputs_ = 0, kept_ = 0;  // kept_: rows of which `backward` may follow
  std::vector<float> block_outputs_,
      block_gradients_;  // the networks', and the loss's gradient by them: [rows, outputs]
  std::vector<float> inverse_deviations_;
  std::vector<Slice> slices_;  // of a block
  std::vector<Scratch> scratch_;  // of each thread
};

}  // namespace
}  // namespace headrace::learner
