// An update of action values (DQN: Mnih et al. 2015; double: van Hasselt et al. 2016, arXiv:1509.06461; dueling: Wang et
// al. 2016, arXiv:1511.06581). The formulas are those of `DQN` in dqn.py.
#pragma once

#include <cmath>
#include <vector>

#include "learner/adam.hpp"
#include "learner/networks.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class QCore final : public QLearner {
 public:
  explicit QCore(const QNetworks& networks)
      : actions_(networks.actions),
        dueling_(networks.dueling),
        adam_(networks.adam),
        q_(networks.q.stacks.front(), networks.q.activation),
        target_(networks.target.stacks.front(), networks.target.activation),
        seen_(networks.q, D::kRows),
        target_seen_(networks.target, D::kRows) {
    learner_.add(q_, seen_), learner_.add(seen_);
    followed_.add(target_, target_seen_), followed_.add(target_seen_);
  }

  CriticStatistics improve(const Transitions& batch, const std::int64_t* actions, const QRates& rates,
                           float* errors) override {
    const int threads = rates.threads;
    const double products = (rates.chooses ? 3 : 2) * learner_.products() + followed_.products();
    const int block = reserve(batch.rows, products, threads);
    learner_.pack(true, threads), followed_.pack(false, threads);
    CriticStatistics s;
    for (int first = 0; first < batch.rows; first += block) {
      const int n = std::min(block, batch.rows - first);
      const Pieces pieces(n, products, threads, D::kGrain);
      seen_.begin(pieces.count()), target_seen_.begin(pieces.count());
      pieces.each([&](const Piece& piece) {
        find_targets(batch, first, piece, rates.chooses);
        evaluate(seen_, q_, batch.inputs, first, piece, true);
        for (int r = piece.rows.begin; r < piece.rows.end; ++r) {
          const std::int64_t action = actions[first + r];
          const float error = row(r)[action] - targets_[static_cast<std::size_t>(r)], weight = batch.weight(first + r);
          const float slope = rates.huber ? std::fmin(std::fmax(error, -1.0f), 1.0f) : 2 * error;
          losses_[static_cast<std::size_t>(r)] = weight * (rates.huber ? slope * (error - slope / 2) : error * error);
          errors[first + r] = std::fabs(error);
          spread(slope * weight / static_cast<float>(batch.rows), static_cast<int>(action),
                 q_.result_gradients() + r * q_.stride());
        }
        seen_.come_back(q_, batch.inputs, piece, [&](int r) { return first + r; });
      });
      learner_.add_gradients(n, first == 0, first + n == batch.rows, threads);
      for (int i = 0; i < n * actions_; ++i) s.mean += row(0)[i];
      for (int r = 0; r < n; ++r) s.loss += losses_[static_cast<std::size_t>(r)];
    }
    s.loss /= batch.rows;
    s.mean /= static_cast<double>(batch.rows) * actions_;
    s.gradient_norm = adam_step<V>(adam_, rates.learning_rate, rates.max_grad_norm, threads);
    return s;
  }

 private:
  // Makes room for a block of some rows, of which each takes so many products, and returns its size.
  int reserve(int rows, double products, int threads) {
    threads = threads_for(rows * products, threads);
    const int block = rows_of_block<D>(rows, threads, seen_.convolutions() > 0);
    for (auto* each : {&q_, &target_}) each->reserve(block);
    for (auto* each : {&seen_, &target_seen_}) each->reserve(block, threads);
    const auto numbers = static_cast<std::size_t>(block);
    if (best_.size() < numbers)
      values_.resize(numbers * static_cast<std::size_t>(actions_)), targets_.resize(numbers), losses_.resize(numbers),
          best_.resize(numbers);
    return block;
  }

  float* row(int r) { return values_.data() + r * actions_; }

  // values [rows, actions] of a piece of a block
  void evaluate(Encoder<V, D>& encoder, Layers<V, D>& network, const Observations& inputs, int first,
                const Piece& piece, bool comes_back = false) {
    encoder.encode(inputs, piece, [&](int r) { return first + r; }, comes_back);
    const float* results = network.forward(encoder.inputs(), piece.rows);
    for (int r = piece.rows.begin; r < piece.rows.end; ++r) {
      const float* outputs = results + r * network.stride();
      float shift = 0;
      if (dueling_) {  // V + A - mean(A)
        for (int a = 0; a < actions_; ++a) shift -= outputs[a];
        shift = outputs[actions_] + shift / static_cast<float>(actions_);
      }
      for (int a = 0; a < actions_; ++a) row(r)[a] = outputs[a] + shift;
    }
  }

  // the gradient of the outputs of a row, given that of one action's value
  void spread(float slope, int action, float* d) const {
    const float other = dueling_ ? -slope / static_cast<float>(actions_) : 0.0f;
    std::fill_n(d, actions_, other);
    d[action] += slope;
    if (dueling_) d[actions_] = slope;
  }

  // r + discount · Q'(s', a'), of a piece of a block
  void find_targets(const Transitions& batch, int first, const Piece& piece, bool chooses) {
    const auto choose = [&] {
      for (int r = piece.rows.begin; r < piece.rows.end; ++r)
        best_[static_cast<std::size_t>(r)] = std::max_element(row(r), row(r) + actions_) - row(r);
    };
    if (chooses) evaluate(seen_, q_, batch.next_inputs, first, piece), choose();
    evaluate(target_seen_, target_, batch.next_inputs, first, piece);
    if (!chooses) choose();
    for (int r = piece.rows.begin; r < piece.rows.end; ++r) {
      const auto place = static_cast<std::size_t>(r);
      targets_[place] = batch.rewards[first + r] + batch.discounts[first + r] * row(r)[best_[place]];
    }
  }

  int actions_;
  bool dueling_;
  Adam adam_;
  Layers<V, D> q_, target_;
  Encoder<V, D> seen_, target_seen_;
  Networks<V, D> learner_, followed_;
  std::vector<float> values_, targets_, losses_;  // of a block: [rows, actions], [rows], [rows]
  std::vector<std::ptrdiff_t> best_;  // [rows]
};

}  // namespace
}  // namespace headrace::learner
