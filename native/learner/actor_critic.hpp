// An update of critics and of an actor from transitions (SAC: Haarnoja et al. 2018, arXiv:1812.05905; TD3: Fujimoto et al.
// 2018, arXiv:1802.09477; DDPG: Lillicrap et al. 2016, arXiv:1509.02971). The formulas are those of the losses in
// headrace.train.algorithms.sac, td3 and ddpg.
#pragma once

#include <cmath>
#include <vector>

#include "adam.hpp"
#include "dense.hpp"
#include "squashed_normal.hpp"
#include "two_threads.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class ActorCriticCore final : public ActorCriticLearner {
  static constexpr int kRows = 256;  // samples of a block: most minibatches are one, so that each network is read once
  using Stacks = std::vector<Layers<V, D>>;

 public:
  explicit ActorCriticCore(ActorCriticNetworks networks)
      : networks_(std::move(networks)), both_(networks_.inputs + networks_.actions), actor_(layers(networks_.actor)),
        critics_(layers(networks_.critics)), target_actor_(layers(networks_.target_actor)), target_critics_(layers(networks_.target_critics)),
        inputs_(floats(kRows, distance(networks_.inputs))), joined_(floats(kRows, distance(both_))), following_(floats(kRows, distance(both_))),
        drawn_(static_cast<std::size_t>(kRows * networks_.actions)), columns_(static_cast<std::size_t>(kRows) * (critics_.size() + 1)), judged_(critics_.size()) {}

  CriticStatistics improve_critics(const Transitions& batch, const float* noise, const ActorCriticRates& rates) override {
    policy_for_targets().pack(false);
    const auto weight = static_cast<float>(temperature());
    std::vector<CriticStatistics> sums(critics_.size());
    for (int first = 0; first < batch.rows; first += kRows) {
      const int n = std::min(kRows, batch.rows - first);
      act(policy_for_targets(), batch.next_inputs, first, n, noise, following_.get());
      join(batch.inputs, first, n, joined_.get(), [&](int r, float* to) { std::copy_n(batch.actions.row(first + r), networks_.actions, to); });
      const auto follow = [&](std::size_t k) {
        if (first == 0) target_critics_[k].pack(false);
        evaluate(target_critics_[k], following_.get(), n, values(k));
      };
      const auto improve = [&](std::size_t k) {
        if (first == 0) critics_[k].pack();
        fit(critics_[k], batch, first, n, weight, rates, sums[k]);
        if (first + n == batch.rows) critics_[k].write_gradients();
      };
      each(critics_.size(), rates.threads, follow, improve);
    }
    CriticStatistics s;
    for (const auto& sum : sums) s.loss += sum.loss, s.mean += sum.mean;
    s.loss *= rates.critic_weight / batch.rows;
    s.mean /= static_cast<double>(batch.rows) * static_cast<double>(critics_.size());
    s.gradient_norm = descend<V>(networks_.critic_adam, rates.critic_learning_rate, rates.max_grad_norm);
    return s;
  }

  ActorStatistics improve_actor(const Transitions& batch, const float* noise, const ActorCriticRates& rates) override {
    actor_[0].pack();
    ActorStatistics s;
    s.temperature = temperature();
    double log_probs = 0, values = 0;
    for (int first = 0; first < batch.rows; first += kRows) {
      const int n = std::min(kRows, batch.rows - first);
      log_probs += act(actor_[0], batch.inputs, first, n, noise, joined_.get());
      values += climb(n, 1.0f / static_cast<float>(batch.rows), first == 0, rates.threads);
      actor_[0].backward(inputs_.get(), n, first == 0);
    }
    actor_[0].write_gradients();
    s.gradient_norm = descend<V>(networks_.actor_adam, rates.actor_learning_rate, rates.max_grad_norm);
    s.entropy = -log_probs / batch.rows;
    s.loss = -s.temperature * s.entropy - values / batch.rows;
    if (networks_.stochastic()) {
      networks_.temperature_adam.gradient[0] = static_cast<float>(s.entropy - rates.target_entropy);
      descend<V>(networks_.temperature_adam, rates.actor_learning_rate, rates.max_grad_norm);
    }
    return s;
  }

 private:
  static Stacks layers(const Network& network) {
    Stacks stacks;
    for (const Stack& stack : network.stacks) stacks.emplace_back(stack, network.activation, kRows);
    return stacks;
  }

  // work(k) of each critic, of one work after the other
  template <class... Work>
  static void each(std::size_t n, bool threads, Work... works) {
    if (n == 2) return each_of_two(threads, works...);
    const auto all = [n](auto& work) {
      for (std::size_t k = 0; k < n; ++k) work(k);
    };
    (all(works), ...);
  }

  Layers<V, D>& policy_for_targets() { return networks_.stochastic() ? actor_[0] : target_actor_[0]; }

  double temperature() const { return networks_.stochastic() ? std::exp(static_cast<double>(networks_.temperature_adam.parameters[0])) : 0; }

  // inputs of a block's critics: observations, and what write(r, to) writes as actions of each row
  template <class Write>
  void join(const Rows& inputs, int first, int rows, float* joined, Write write) {
    for (int r = 0; r < rows; ++r) {
      float* to = joined + r * distance(both_);
      std::copy_n(inputs.row(first + r), networks_.inputs, to);
      write(r, to + networks_.inputs);
    }
  }

  // Joins observations and a policy's actions; returns the sum of these actions' log-probabilities, which are in
  // `log_probs()`, too. A deterministic policy's noise is added to its actions, if there is some.
  double act(Layers<V, D>& policy, const Rows& inputs, int first, int rows, const float* noise, float* joined) {
    for (int r = 0; r < rows; ++r) std::copy_n(inputs.row(first + r), networks_.inputs, inputs_.get() + r * distance(networks_.inputs));
    const float* outputs = policy.forward(inputs_.get(), rows);
    const int actions = networks_.actions;
    double sum = 0;
    join(inputs, first, rows, joined, [&](int r, float* to) {
      const float *output = outputs + r * policy.stride(), *mine = noise == nullptr ? nullptr : noise + static_cast<std::ptrdiff_t>(first + r) * actions;
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
      sum += log_prob;
    });
    return sum;
  }

  float* values(std::size_t critic) { return columns_.data() + critic * static_cast<std::size_t>(kRows); }
  float* log_probs() { return values(critics_.size()); }

  static void evaluate(Layers<V, D>& critic, const float* joined, int rows, float* to) {
    const float* results = critic.forward(joined, rows);
    for (int r = 0; r < rows; ++r) to[r] = results[r * critic.stride()];
  }

  float lowest(std::size_t critics, int r) {
    float least = values(0)[r];
    for (std::size_t k = 1; k < critics; ++k) least = std::fmin(least, values(k)[r]);
    return least;
  }

  // r + discount · (min Q'(s', a') - α log π(a'|s')), of a row of a block
  float target(const Transitions& batch, int first, int r, float weight) {
    return batch.rewards[first + r] + batch.discounts[first + r] * (lowest(target_critics_.size(), r) - weight * log_probs()[r]);
  }

  // one critic's gradient of its squared errors; adds to their sum, and to that of its values
  void fit(Layers<V, D>& critic, const Transitions& batch, int first, int rows, float weight, const ActorCriticRates& rates,
           CriticStatistics& sums) {
    CriticStatistics s;
    const float* results = critic.forward(joined_.get(), rows);
    const auto share = static_cast<float>(2 * rates.critic_weight / batch.rows);
    for (int r = 0; r < rows; ++r) {
      const float value = results[r * critic.stride()], error = value - target(batch, first, r, weight), weighted = error * batch.weight(first + r);
      s.mean += value, s.loss += error * weighted;
      critic.result_gradients()[r * critic.stride()] = weighted * share;
    }
    critic.backward(joined_.get(), rows, first == 0);
    sums.mean += s.mean, sums.loss += s.loss;
  }

  // The gradient of the policy's outputs that lets values rise, and its entropy; returns the sum of the values. A
  // stochastic policy climbs the lowest of the critics' values, equal ones in equal parts, another one the first's.
  double climb(int rows, float share, bool is_first, bool threads) {
    const std::size_t judges = networks_.stochastic() ? critics_.size() : 1;
    std::vector<const float*> slopes(judges);
    const auto judge = [&](std::size_t k) {
      if (is_first) critics_[k].pack();
      evaluate(critics_[k], joined_.get(), rows, values(k));
    };
    const auto find_slopes = [&](std::size_t k) {  // of the rows where the critic counts
      float* d = critics_[k].result_gradients();
      judged_[k].clear();
      for (int r = 0; r < rows; ++r)
        if (const float mine = part(k, judges, r); mine > 0) {
          *d = -share * mine, d += critics_[k].stride();
          judged_[k].push_back(r);
        }
      critics_[k].keep(judged_[k]);
      slopes[k] = critics_[k].to_inputs(joined_.get(), static_cast<int>(judged_[k].size()), networks_.inputs) + networks_.inputs;
    };
    each(judges, threads, judge, find_slopes);
    float* d = actor_[0].result_gradients();
    const int stride = actor_[0].stride();
    for (int r = 0; r < rows; ++r) std::fill_n(d + r * stride, networks_.actions, 0.0f);
    for (std::size_t k = 0; k < judges; ++k)
      for (const int r : judged_[k]) {
        for (int i = 0; i < networks_.actions; ++i) d[r * stride + i] += slopes[k][i];
        slopes[k] += distance(both_);
      }
    const float entropy_slope = static_cast<float>(temperature()) * share;
    double sum = 0;
    for (int r = 0; r < rows; ++r) sum += lowest(judges, r), through_actions(r, entropy_slope, d + r * stride);
    return sum;
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
  int both_;  // columns of inputs and actions
  Stacks actor_, critics_, target_actor_, target_critics_;
  Floats inputs_, joined_, following_;  // of a block, padded; the last with what comes next
  std::vector<SquashedNormal> drawn_;  // a stochastic policy's actions
  std::vector<float> columns_;         // values of each critic, and log-probabilities
  std::vector<std::vector<int>> judged_;  // rows whose lowest value is a critic's
};

}  // namespace
}  // namespace headrace::learner
