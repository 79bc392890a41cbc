// Updates of action values over a rollout (PQN: Gallici et al. 2024, arXiv:2407.04811). The loss is that of `PQN` in
// pqn.py.
#pragma once

#include <cmath>
#include <vector>

#include "learner/adam.hpp"
#include "learner/networks.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class ValueCore final : public ValueLearner {
 public:
  ValueCore(const Network& network, Adam radam)
      : encoder_(network, D::kRows), layers_(network.stacks.front(), network.activation), radam_(radam) {
    networks_.add(layers_, encoder_), networks_.add(encoder_);
  }

  CriticStatistics epoch(const ValueRollout& rollout, const std::int64_t* order, int minibatches, int size,
                         double learning_rate, double max_grad_norm, int threads) override {
    CriticStatistics sums;
    for (int i = 0; i < minibatches; ++i, order += size) {
      networks_.pack(true, threads);
      find_gradient(rollout, order, size, threads, sums);
      sums.gradient_norm += radam_step<V>(radam_, learning_rate, max_grad_norm, threads);
    }
    const double rows = static_cast<double>(minibatches) * size;
    return {sums.loss / rows, sums.mean / (rows * layers_.outputs()), sums.gradient_norm / minibatches};
  }

 private:
  // writes the gradient of the mean of (Q(s, a) - R)² / 2 over samples
  void find_gradient(const ValueRollout& rollout, const std::int64_t* order, int size, int threads,
                     CriticStatistics& sums) {
    const double products = 2 * networks_.products();
    const int working = threads_for(size * products, threads);
    const int block = rows_of_block<D>(size, working, encoder_.convolutions() > 0);
    encoder_.reserve(block, working), layers_.reserve(block);
    losses_.resize(static_cast<std::size_t>(block));
    const float share = 1.0f / static_cast<float>(size);
    for (int first = 0; first < size; first += block) {
      const int n = std::min(block, size - first);
      const auto row = [&](int r) { return order[first + r]; };
      const Pieces pieces(n, products, threads, D::kGrain);
      encoder_.begin(pieces.count());
      pieces.each([&](const Piece& piece) {
        encoder_.encode(rollout.inputs, piece, row, true, layers_.takes_sparse());
        const float* values = layers_.forward(encoder_.inputs(), piece.rows, encoder_.sparse(piece.number));
        for (int r = piece.rows.begin; r < piece.rows.end; ++r) {
          const std::int64_t action = rollout.choices[row(r)];
          const float error = values[r * layers_.stride() + action] - rollout.returns[row(r)];
          losses_[static_cast<std::size_t>(r)] = error * error / 2;
          float* d = layers_.result_gradients() + r * layers_.stride();
          std::fill_n(d, layers_.outputs(), 0.0f);
          d[action] = error * share;
        }
        encoder_.come_back(layers_, rollout.inputs, piece, row);
      });
      networks_.add_gradients(n, first == 0, first + n == size, threads);
      for (int r = 0; r < n; ++r) {
        sums.loss += losses_[static_cast<std::size_t>(r)];
        for (int a = 0; a < layers_.outputs(); ++a) sums.mean += layers_.results()[r * layers_.stride() + a];
      }
    }
  }

  Encoder<V, D> encoder_;
  Layers<V, D> layers_;
  Networks<V, D> networks_;
  Adam radam_;
  std::vector<float> losses_;  // of a block
};

}  // namespace
}  // namespace headrace::learner
