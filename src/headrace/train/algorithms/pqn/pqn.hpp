// Updates of action values over a rollout (PQN: Gallici et al. 2024, arXiv:2407.04811). The loss is that of `PQN` in
// pqn.py.
#pragma once

#include <cmath>
#include <vector>

#include "learner/adam.hpp"
#include "learner/encoder.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class ValueCore final : public ValueLearner {
  static constexpr int kRows = D::kRows;

  // the network with a block's samples, and the sums of statistics over blocks
  struct Part {
    explicit Part(const Network& network)
        : encoder(network, kRows), layers(network.stacks.front(), network.activation) {}
    void pack() { encoder.pack(), layers.pack(); }
    void write_gradients() const { encoder.write_gradients(), layers.write_gradients(); }

    Encoder<V, D> encoder;
    Layers<V, D> layers;
    CriticStatistics sums;
  };

 public:
  ValueCore(const Network& network, Adam radam) : part_(network), radam_(radam) {}

  CriticStatistics epoch(const ValueRollout& rollout, const std::int64_t* order, int minibatches, int size,
                         double learning_rate, double max_grad_norm) override {
    part_.sums = {};
    for (int i = 0; i < minibatches; ++i, order += size) {
      gradient_of(part_, rollout, order, size, 1.0f / static_cast<float>(size));
      part_.sums.gradient_norm += radam_step<V>(radam_, learning_rate, max_grad_norm);
    }
    const double rows = static_cast<double>(minibatches) * size;
    return {part_.sums.loss / rows, part_.sums.mean / (rows * part_.layers.outputs()),
            part_.sums.gradient_norm / minibatches};
  }

 private:
  // writes the gradient of share · Σ (Q(s, a) - R)² / 2 over samples
  static void gradient_of(Part& part, const ValueRollout& rollout, const std::int64_t* order, int size, float share) {
    part.pack();
    Layers<V, D>& layers = part.layers;
    const int actions = layers.outputs(), stride = layers.stride();
    for (int first = 0; first < size; first += kRows) {
      const int n = std::min(kRows, size - first);
      const auto row = [&](int r) { return order[first + r]; };
      part.encoder.encode(rollout.inputs, n, row, true, layers.takes_sparse());
      const float* values = layers.forward(part.encoder.inputs(), n, part.encoder.sparse());
      for (int r = 0; r < n; ++r, values += stride) {
        const std::int64_t action = rollout.choices[row(r)];
        const float error = values[action] - rollout.returns[row(r)];
        part.sums.loss += error * error / 2;
        for (int a = 0; a < actions; ++a) part.sums.mean += values[a];
        float* d = layers.result_gradients() + r * stride;
        std::fill_n(d, actions, 0.0f);
        d[action] = error * share;
      }
      part.encoder.backward(layers, rollout.inputs, n, row, first == 0);
    }
    part.write_gradients();
  }

  Part part_;
  Adam radam_;
};

}  // namespace
}  // namespace headrace::learner
