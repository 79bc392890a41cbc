// An update of critics and of an actor from transitions (SAC: Haarnoja et al. 2018, arXiv:1812.05905; TD3: Fujimoto et al.
// 2018, arXiv:1802.09477; DDPG: Lillicrap et al. 2016, arXiv:1509.02971). The formulas are those of the losses in
// headrace.train.algorithms.sac, td3 and ddpg.
#pragma once

#include <cmath>
#include <vector>

#include "adam.hpp"
#include "networks.hpp"
#include "sac/sac.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class ActorCriticCore final : public ActorCriticLearner {
  static constexpr int kRows = 256;  // samples of a block: most minibatches are one, so that each network is read once
  using Stacks = std::vector<Layers<V, D>>;

 public:
  explicit ActorCriticCore(ActorCriticNetworks networks)
      : networks_(std::move(networks)),
        both_(networks_.inputs + networks_.actions),
        actor_(layers(networks_.actor)),
        target_actor_(layers(networks_.target_actor)),
        critics_(layers(networks_.critics)),
        target_critics_(layers(networks_.target_critics)) {
    reserve(kRows);
    for (auto& each : actor_) policy_.add(each, inputs_);
    for (auto& each : networks_.stochastic() ? actor_ : target_actor_) followed_.add(each, inputs_);
    for (auto& each : critics_) learners_.add(each, joined_);
    for (std::size_t c = 0; c < judges(); ++c) judges_.add(critics_[c], joined_);
    for (auto& each : target_critics_) targets_.add(each, following_);
  }

  CriticStatistics improve_critics(const Transitions& batch, const float* noise,
                                   const ActorCriticRates& rates) override {
    const auto weight = static_cast<float>(temperature());
    const double products = followed_.products() + targets_.products() + 2 * learners_.products();
    const int threads = rates.threads, block = reserve(batch.rows, products, threads);
    followed_.pack(false, threads), targets_.pack(false, threads), learners_.pack(true, threads);
    std::vector<CriticStatistics> sums(critics_.size());
    for (int first = 0; first < batch.rows; first += block) {
      const int n = std::min(block, batch.rows - first);
      Pieces(n, products, threads, D::kGrain).each([&](const Piece& piece) {
        act(networks_.stochastic() ? actor_[0] : target_actor_[0], piece.rows, batch.next_inputs, first, noise,
            following_.get());
        join(batch.inputs, first, piece.rows, joined_.get(),
             [&](int r, float* to) { std::copy_n(batch.actions.row(first + r), networks_.actions, to); });
        for (std::size_t c = 0; c < critics_.size(); ++c)
          evaluate(target_critics_[c], following_.get(), piece.rows, values(c));
        for (std::size_t c = 0; c < critics_.size(); ++c) fit(c, batch, first, piece.rows, weight, rates);
      });
      learners_.add_gradients(n, first == 0, first + n == batch.rows, threads);
      for (std::size_t c = 0; c < critics_.size(); ++c)
        for (int r = 0; r < n; ++r) sums[c].mean += fitted(c)[r], sums[c].loss += losses(c)[r];
    }
    CriticStatistics s;
    for (const auto& sum : sums) s.loss += sum.loss, s.mean += sum.mean;
    s.loss *= rates.critic_weight / batch.rows;
    s.mean /= static_cast<double>(batch.rows) * static_cast<double>(critics_.size());
    s.gradient_norm = adam_step<V>(networks_.critic_adam, rates.critic_learning_rate, rates.max_grad_norm, threads);
    return s;
  }

  // A stochastic policy climbs the lowest of the critics' values, equal ones in equal parts, another one the first's.
  ActorStatistics improve_actor(const Transitions& batch, const float* noise, const ActorCriticRates& rates) override {
    const float share = 1.0f / static_cast<float>(batch.rows);
    const double products = 2 * (policy_.products() + judges_.products());
    const int threads = rates.threads, block = reserve(batch.rows, products, threads);
    policy_.pack(true, threads), judges_.pack(true, threads);
    ActorStatistics s;
    s.temperature = temperature();
    double log_probs_of_all = 0, values_of_policy = 0;
    for (int first = 0; first < batch.rows; first += block) {
      const int n = std::min(block, batch.rows - first);
      Pieces(n, products, threads, D::kGrain).each([&](const Piece& piece) {
        act(actor_[0], piece.rows, batch.inputs, first, noise, joined_.get());
        for (std::size_t c = 0; c < judges(); ++c) evaluate(critics_[c], joined_.get(), piece.rows, values(c));
        come_back(piece, share);
      });
      policy_.add_gradients(n, first == 0, first + n == batch.rows, threads);
      for (int r = 0; r < n; ++r) log_probs_of_all += log_probs()[r], values_of_policy += lowest(judges(), r);
    }
    s.gradient_norm = adam_step<V>(networks_.actor_adam, rates.actor_learning_rate, rates.max_grad_norm, threads);
    s.entropy = -log_probs_of_all / batch.rows;
    s.loss = -s.temperature * s.entropy - values_of_policy / batch.rows;
    if (networks_.stochastic()) {
      networks_.temperature_adam.gradient[0] = static_cast<float>(s.entropy - rates.target_entropy);
      adam_step<V>(networks_.temperature_adam, rates.actor_learning_rate, rates.max_grad_norm);
    }
    return s;
  }

 private:
  static Stacks layers(const Network& network) {
    Stacks stacks;
    for (const Stack& stack : network.stacks) stacks.emplace_back(stack, network.activation, kRows);
    return stacks;
  }

  std::size_t judges() const { return networks_.stochastic() ? critics_.size() : 1; }

  // Makes room for a block of some rows, of which each takes so many products, and returns its size.
  int reserve(int rows, double products, int threads) {
    threads = threads_for(rows * products, threads);
    if (static_cast<int>(judged_.size()) < threads) judged_.resize(static_cast<std::size_t>(threads));
    const int block = std::max(kRows, rows_of_block<D>(rows, threads, false));
    if (block > block_) reserve(block);
    return block;
  }

  void reserve(int block) {
    block_ = block;
    for (Stacks* each : {&actor_, &target_actor_, &critics_, &target_critics_})
      for (auto& stack : *each) stack.reserve(block);
    inputs_ = floats(block, distance(networks_.inputs));
    joined_ = floats(block, distance(both_)), following_ = floats(block, distance(both_));
    drawn_.resize(static_cast<std::size_t>(block * networks_.actions));
    columns_.resize(static_cast<std::size_t>(block) * (3 * critics_.size() + 1));
  }

  double temperature() const {
    return networks_.stochastic() ? std::exp(static_cast<double>(networks_.temperature_adam.parameters[0])) : 0;
  }

  // inputs of critics: observations of some of a block's rows, and what write(r, to) writes as actions of each
  template <class Write>
  void join(const Observations& inputs, int first, Range rows, float* joined, Write write) {
    for (int r = rows.begin; r < rows.end; ++r) {
      float* to = joined + r * distance(both_);
      std::copy_n(inputs.row(first + r), networks_.inputs, to);
      write(r, to + networks_.inputs);
    }
  }

  // Joins observations and a policy's actions, whose log-probabilities are in `log_probs()` then. A deterministic policy's
  // noise is added to its actions, if there is some.
  void act(Layers<V, D>& policy, Range rows, const Observations& inputs, int first, const float* noise, float* joined) {
    for (int r = rows.begin; r < rows.end; ++r)
      std::copy_n(inputs.row(first + r), networks_.inputs, inputs_.get() + r * distance(networks_.inputs));
    const float* outputs = policy.forward(inputs_.get(), rows);
    const int actions = networks_.actions;
    join(inputs, first, rows, joined, [&](int r, float* to) {
      const float *output = outputs + r * policy.stride(),
                  *mine = noise == nullptr ? nullptr : noise + static_cast<std::ptrdiff_t>(first + r) * actions;
      float log_prob = 0;
      for (int i = 0; i < actions; ++i) {
        if (networks_.stochastic()) {
          SquashedNormal& drawn = drawn_[static_cast<std::size_t>(r * actions + i)];
          drawn = SquashedNormal(output[i], output[actions + i], mine[i]);
          to[i] = drawn.action;
          log_prob += drawn.log_prob;
        } else {
          const float action = std::tanh(output[i]);
          to[i] = mine == nullptr ? action : std::fmin(std::fmax(action + mine[i], -1.0f), 1.0f);
        }
      }
      log_probs()[r] = log_prob;
    });
  }

  // of a block's rows: values of each critic or of its target, those that it fits and its weighted squared errors; and
  // log-probabilities
  float* column(std::size_t k) { return columns_.data() + k * static_cast<std::size_t>(block_); }
  float* values(std::size_t critic) { return column(critic); }
  float* fitted(std::size_t critic) { return column(critics_.size() + critic); }
  float* losses(std::size_t critic) { return column(2 * critics_.size() + critic); }
  float* log_probs() { return column(3 * critics_.size()); }

  static void evaluate(Layers<V, D>& critic, const float* joined, Range rows, float* to) {
    const float* results = critic.forward(joined, rows);
    for (int r = rows.begin; r < rows.end; ++r) to[r] = results[r * critic.stride()];
  }

  float lowest(std::size_t critics, int r) {
    float least = values(0)[r];
    for (std::size_t k = 1; k < critics; ++k) least = std::fmin(least, values(k)[r]);
    return least;
  }

  // r + discount · (min Q'(s', a') - α log π(a'|s')), of a row of a block
  float target(const Transitions& batch, int first, int r, float weight) {
    return batch.rewards[first + r] +
           batch.discounts[first + r] * (lowest(target_critics_.size(), r) - weight * log_probs()[r]);
  }

  // one critic's gradients of its squared errors
  void fit(std::size_t number, const Transitions& batch, int first, Range rows, float weight,
           const ActorCriticRates& rates) {
    Layers<V, D>& critic = critics_[number];
    const float* results = critic.forward(joined_.get(), rows);
    const auto share = static_cast<float>(2 * rates.critic_weight / batch.rows);
    for (int r = rows.begin; r < rows.end; ++r) {
      const float value = results[r * critic.stride()], error = value - target(batch, first, r, weight),
                  weighted = error * batch.weight(first + r);
      fitted(number)[r] = value, losses(number)[r] = error * weighted;
      critic.result_gradients()[r * critic.stride()] = weighted * share;
    }
    critic.come_back(rows);
  }

  // Gradients of a piece of the policy's outputs that let the judges' values rise, and its entropy, and what they are within.
  void come_back(const Piece& piece, float share) {
    Layers<V, D>& policy = actor_[0];
    const auto [begin, end] = piece.rows;
    const auto row_of = [&](int r) { return policy.result_gradients() + r * policy.stride(); };
    for (int r = begin; r < end; ++r) std::fill_n(row_of(r), networks_.actions, 0.0f);
    std::vector<int>& judged = judged_[static_cast<std::size_t>(piece.thread)];
    for (std::size_t c = 0; c < judges(); ++c) {
      const float* slope = slopes(c, piece.rows, share, judged);
      for (const int r : judged) {
        for (int i = 0; i < networks_.actions; ++i) row_of(r)[i] += slope[i];
        slope += distance(both_);
      }
    }
    const float entropy_slope = static_cast<float>(temperature()) * share;
    for (int r = begin; r < end; ++r) through_actions(r, entropy_slope, row_of(r));
    policy.come_back(piece.rows);
  }

  // Finds the rows where a critic counts; returns the gradients of their actions.
  const float* slopes(std::size_t number, Range rows, float share, std::vector<int>& judged) {
    Layers<V, D>& critic = critics_[number];
    float* d = critic.result_gradients() + rows.begin * critic.stride();
    judged.clear();
    for (int r = rows.begin; r < rows.end; ++r)
      if (const float counts = part(number, judges(), r); counts > 0) {
        *d = -share * counts, d += critic.stride();
        judged.push_back(r);
      }
    critic.keep(judged, rows);
    const Range kept(rows.begin, rows.begin + static_cast<int>(judged.size()));
    return critic.to_inputs(joined_.get(), kept, networks_.inputs) + rows.begin * distance(both_) + networks_.inputs;
  }

  // the derivative of the lowest of the critics' values by that of one
  float part(std::size_t critic, std::size_t critics, int r) {
    const float least = lowest(critics, r);
    int equal = 0;
    for (std::size_t k = 0; k < critics; ++k) equal += values(k)[r] == least;
    return values(critic)[r] == least ? 1.0f / static_cast<float>(equal) : 0.0f;
  }

  // turns the gradient of a row's actions into that of the outputs
  void through_actions(int r, float d_log_prob, float* d) const {
    const int actions = networks_.actions;
    for (int i = 0; i < actions; ++i) {
      if (networks_.stochastic()) {
        const auto [mean, log_std] = drawn_[static_cast<std::size_t>(r * actions + i)].gradient(d[i], d_log_prob);
        d[i] = mean, d[actions + i] = log_std;
      } else {
        const float action = joined_.get()[r * distance(both_) + networks_.inputs + i];
        d[i] *= 1 - action * action;
      }
    }
  }

  ActorCriticNetworks networks_;
  int both_, block_ = 0;  // columns of inputs and actions; rows of the largest block so far
  Stacks actor_, target_actor_, critics_, target_critics_;
  Networks<V, D> policy_, followed_, learners_, judges_,
      targets_;  // those that act, learn, judge actions, or are targets
  Floats inputs_, joined_, following_;  // of a block, padded; the last with what comes next
  std::vector<SquashedNormal> drawn_;  // a stochastic policy's actions
  std::vector<float> columns_;
  std::vector<std::vector<int>> judged_;  // of each thread: rows of a piece where a critic counts
};

}  // namespace
}  // namespace headrace::learner
