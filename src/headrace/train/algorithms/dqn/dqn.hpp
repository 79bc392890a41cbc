// An update of action values (DQN: Mnih et al. 2015; double: van Hasselt et al. 2016, arXiv:1509.06461; dueling: Wang et
// al. 2016, arXiv:1511.06581). The formulas are those of `DQN` in dqn.py.
#pragma once

#include <cmath>
#include <vector>

#include "learner/adam.hpp"
#include "learner/encoder.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class QCore final : public QLearner {
  static constexpr int kRows = D::kRows;

 public:
  explicit QCore(QNetworks networks)
      : networks_(std::move(networks)),
        q_(networks_.q.stacks.front(), networks_.q.activation),
        target_(networks_.target.stacks.front(), networks_.target.activation),
        seen_(networks_.q, kRows),
        target_seen_(networks_.target, kRows),
        values_(static_cast<std::size_t>(kRows * networks_.actions)),
        targets_(kRows),
        best_(kRows) {}

  CriticStatistics improve(const Transitions& batch, const std::int64_t* actions, const QRates& rates,
                           float* errors) override {
    seen_.pack();
    q_.pack();
    target_seen_.pack(false);
    target_.pack(false);
    CriticStatistics s;
    for (int first = 0; first < batch.rows; first += kRows) {
      const int n = std::min(kRows, batch.rows - first);
      find_targets(batch, first, n, rates.chooses);
      evaluate(seen_, q_, batch.inputs, first, n, true);
      for (int r = 0; r < n; ++r) {
        const float* values = row(r);
        for (int a = 0; a < networks_.actions; ++a) s.mean += values[a];
        const std::int64_t action = actions[first + r];
        const float error = values[action] - targets_[static_cast<std::size_t>(r)], weight = batch.weight(first + r);
        const float slope = rates.huber ? std::fmin(std::fmax(error, -1.0f), 1.0f) : 2 * error;
        s.loss += weight * (rates.huber ? slope * (error - slope / 2) : error * error);
        errors[first + r] = std::fabs(error);
        spread(slope * weight / static_cast<float>(batch.rows), static_cast<int>(action),
               q_.result_gradients() + r * q_.stride());
      }
      seen_.backward(q_, batch.inputs, n, [&](int r) { return first + r; }, first == 0);
    }
    seen_.write_gradients();
    q_.write_gradients();
    s.loss /= batch.rows;
    s.mean /= static_cast<double>(batch.rows) * networks_.actions;
    s.gradient_norm = adam_step<V>(networks_.adam, rates.learning_rate, rates.max_grad_norm);
    return s;
  }

 private:
  float* row(int r) { return values_.data() + r * networks_.actions; }

  // values [rows, actions] of a block
  void evaluate(Encoder<V, D>& encoder, Layers<V, D>& network, const Observations& inputs, int first, int rows,
                bool comes_back = false) {
    encoder.encode(inputs, rows, [&](int r) { return first + r; }, comes_back);
    const float* results = network.forward(encoder.inputs(), rows);
    for (int r = 0; r < rows; ++r) {
      const float* outputs = results + r * network.stride();
      float shift = 0;
      if (networks_.dueling) {  // V + A - mean(A)
        for (int a = 0; a < networks_.actions; ++a) shift -= outputs[a];
        shift = outputs[networks_.actions] + shift / static_cast<float>(networks_.actions);
      }
      for (int a = 0; a < networks_.actions; ++a) row(r)[a] = outputs[a] + shift;
    }
  }

  // the gradient of the outputs of a row, given that of one action's value
  void spread(float slope, int action, float* d) const {
    const float other = networks_.dueling ? -slope / static_cast<float>(networks_.actions) : 0.0f;
    std::fill_n(d, networks_.actions, other);
    d[action] += slope;
    if (networks_.dueling) d[networks_.actions] = slope;
  }

  // r + discount · Q'(s', a'), of a block
  void find_targets(const Transitions& batch, int first, int rows, bool chooses) {
    const auto choose = [&] {
      for (int r = 0; r < rows; ++r)
        best_[static_cast<std::size_t>(r)] = std::max_element(row(r), row(r) + networks_.actions) - row(r);
    };
    if (chooses) evaluate(seen_, q_, batch.next_inputs, first, rows), choose();
    evaluate(target_seen_, target_, batch.next_inputs, first, rows);
    if (!chooses) choose();
    for (int r = 0; r < rows; ++r) {
      const auto place = static_cast<std::size_t>(r);
      targets_[place] = batch.rewards[first + r] + batch.discounts[first + r] * row(r)[best_[place]];
    }
  }

  QNetworks networks_;
  Layers<V, D> q_, target_;
  Encoder<V, D> seen_, target_seen_;
  std::vector<float> values_, targets_;  // [rows, actions], [rows]
  std::vector<std::ptrdiff_t> best_;  // [rows]
};

}  // namespace
}  // namespace headrace::learner
