// An update of critics and of an actor from transitions (SAC: Haarnoja et al. 2018, arXiv:1812.05905; TD3: Fujimoto et al.
// 2018, arXiv:1802.09477; DDPG: Lillicrap et al. 2016, arXiv:1509.02971). The formulas are those of the losses in
// headrace.train.algorithms.sac, td3 and ddpg.
#pragma once

#include <cmath>
#include <vector>

#include "adam.hpp"
#include "dense.hpp"
#include "sac/sac.hpp"
#include "two_threads.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class ActorCriticCore final : public ActorCriticLearner {
  static constexpr int kRows = 256;  // samples of a block: most minibatches are one, so that each network is read once
  static constexpr int kHalved = 64;  // samples of a block of which each half has policies and gradients of its own
  using Stacks = std::vector<Layers<V, D>>;

  struct Half {
    int begin, end;  // of a block's rows
    int size() const { return end - begin; }
  };

 public:
  explicit ActorCriticCore(ActorCriticNetworks networks)
      : networks_(std::move(networks)),
        both_(networks_.inputs + networks_.actions),
        other_gradient_(static_cast<std::size_t>(networks_.actor_adam.size)),
        actor_(halves(networks_.actor,
                      with_gradients(networks_.actor, networks_.actor_adam.gradient, other_gradient_.data()))),
        target_actor_(halves(networks_.target_actor, networks_.target_actor)),
        critics_(layers(networks_.critics)),
        target_critics_(layers(networks_.target_critics)),
        inputs_(floats(kRows, distance(networks_.inputs))),
        joined_(floats(kRows, distance(both_))),
        following_(floats(kRows, distance(both_))),
        drawn_(static_cast<std::size_t>(kRows * networks_.actions)),
        columns_(static_cast<std::size_t>(kRows) * (critics_.size() + 1)),
        judged_(critics_.size()),
        slopes_(critics_.size()) {}

  CriticStatistics improve_critics(const Transitions& batch, const float* noise,
                                   const ActorCriticRates& rates) override {
    const auto weight = static_cast<float>(temperature());
    std::vector<CriticStatistics> sums(critics_.size());
    for (int first = 0; first < batch.rows; first += kRows) {
      const int n = std::min(kRows, batch.rows - first);
      const auto follow = [&](int k) {
        const Half half = half_of(n, k);
        act(networks_.stochastic() ? actor_ : target_actor_, k, half, batch.next_inputs, first, noise, false,
            following_.get());
        join(batch.inputs, first, half, joined_.get(),
             [&](int r, float* to) { std::copy_n(batch.actions.row(first + r), networks_.actions, to); });
      };
      const auto value = [&](int k) {
        for (std::size_t c = static_cast<std::size_t>(k); c < critics_.size(); c += 2) {
          if (first == 0) target_critics_[c].pack(false);
          evaluate(target_critics_[c], following_.get(), n, values(c));
        }
      };
      const auto improve = [&](int k) {
        for (std::size_t c = static_cast<std::size_t>(k); c < critics_.size(); c += 2) {
          if (first == 0) critics_[c].pack();
          fit(critics_[c], batch, first, n, weight, rates, sums[c]);
          if (first + n == batch.rows) critics_[c].write_gradients();
        }
      };
      each_of_two(rates.threads, follow, value, improve);
    }
    CriticStatistics s;
    for (const auto& sum : sums) s.loss += sum.loss, s.mean += sum.mean;
    s.loss *= rates.critic_weight / batch.rows;
    s.mean /= static_cast<double>(batch.rows) * static_cast<double>(critics_.size());
    s.gradient_norm = adam_step<V>(networks_.critic_adam, rates.critic_learning_rate, rates.max_grad_norm);
    return s;
  }

  // A stochastic policy climbs the lowest of the critics' values, equal ones in equal parts, another one the first's.
  ActorStatistics improve_actor(const Transitions& batch, const float* noise, const ActorCriticRates& rates) override {
    const std::size_t judges = networks_.stochastic() ? critics_.size() : 1;
    const float share = 1.0f / static_cast<float>(batch.rows);
    ActorStatistics s;
    s.temperature = temperature();
    double log_probs = 0, values_of_policy = 0;
    for (int first = 0; first < batch.rows; first += kRows) {
      const int n = std::min(kRows, batch.rows - first);
      double log_probs_of[2] = {}, values_of[2] = {};
      const auto go = [&](int k) {
        log_probs_of[k] = act(actor_, k, half_of(n, k), batch.inputs, first, noise, true, joined_.get());
      };
      const auto judge = [&](int k) {
        for (std::size_t c = static_cast<std::size_t>(k); c < judges; c += 2) {
          if (first == 0) critics_[c].pack();
          evaluate(critics_[c], joined_.get(), n, values(c));
        }
      };
      const auto find_slopes = [&](int k) {
        for (std::size_t c = static_cast<std::size_t>(k); c < judges; c += 2) slope(c, judges, n, share);
      };
      const auto come_back = [&](int k) {
        values_of[k] = actor_backward(k, half_of(n, k), judges, share, first == 0);
        if (first + n == batch.rows) actor_[static_cast<std::size_t>(k)].write_gradients();
      };
      each_of_two(rates.threads, go, judge, find_slopes, come_back);
      log_probs += log_probs_of[0] + log_probs_of[1], values_of_policy += values_of[0] + values_of[1];
    }
    if (half_of(std::min(kRows, batch.rows), 1).size() > 0)
      add<V>(networks_.actor_adam.gradient, other_gradient_.data(), networks_.actor_adam.size);
    s.gradient_norm = adam_step<V>(networks_.actor_adam, rates.actor_learning_rate, rates.max_grad_norm);
    s.entropy = -log_probs / batch.rows;
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

  // a policy for each half of a block; none of no policy
  static Stacks halves(const Network& network, const Network& other) {
    Stacks both;
    for (const Network* each : {&network, &other})
      if (!each->stacks.empty()) both.emplace_back(each->stacks[0], each->activation, kRows);
    return both;
  }

  static Half half_of(int rows, int k) {
    const int middle =
        rows < kHalved ? rows : (rows / 2 + kHalved / 2 - 1) / (kHalved / 2) * (kHalved / 2);  // of whole tiles
    return k == 0 ? Half{0, middle} : Half{middle, rows};
  }

  double temperature() const {
    return networks_.stochastic() ? std::exp(static_cast<double>(networks_.temperature_adam.parameters[0])) : 0;
  }

  // inputs of critics: observations of a block's half, and what write(r, to) writes as actions of each row
  template <class Write>
  void join(const Observations& inputs, int first, Half half, float* joined, Write write) {
    for (int r = half.begin; r < half.end; ++r) {
      float* to = joined + r * distance(both_);
      std::copy_n(inputs.row(first + r), networks_.inputs, to);
      write(r, to + networks_.inputs);
    }
  }

  float* inputs_of(Half half) { return inputs_.get() + half.begin * distance(networks_.inputs); }

  // Joins observations and a policy's actions; returns the sum of these actions' log-probabilities, which are in
  // `log_probs()`, too. A deterministic policy's noise is added to its actions, if there is some.
  double act(Stacks& policies, int k, Half half, const Observations& inputs, int first, const float* noise,
             bool comes_back, float* joined) {
    if (half.size() == 0) return 0;
    Layers<V, D>& policy = policies[static_cast<std::size_t>(k)];
    if (first == 0) policy.pack(comes_back);
    for (int r = half.begin; r < half.end; ++r)
      std::copy_n(inputs.row(first + r), networks_.inputs, inputs_.get() + r * distance(networks_.inputs));
    const float* outputs = policy.forward(inputs_of(half), half.size());
    const int actions = networks_.actions;
    double sum = 0;
    join(inputs, first, half, joined, [&](int r, float* to) {
      const float *output = outputs + (r - half.begin) * policy.stride(),
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
    return batch.rewards[first + r] +
           batch.discounts[first + r] * (lowest(target_critics_.size(), r) - weight * log_probs()[r]);
  }

  // one critic's gradient of its squared errors; adds to their sum, and to that of its values
  void fit(Layers<V, D>& critic, const Transitions& batch, int first, int rows, float weight,
           const ActorCriticRates& rates, CriticStatistics& sums) {
    CriticStatistics s;
    const float* results = critic.forward(joined_.get(), rows);
    const auto share = static_cast<float>(2 * rates.critic_weight / batch.rows);
    for (int r = 0; r < rows; ++r) {
      const float value = results[r * critic.stride()], error = value - target(batch, first, r, weight),
                  weighted = error * batch.weight(first + r);
      s.mean += value, s.loss += error * weighted;
      critic.result_gradients()[r * critic.stride()] = weighted * share;
    }
    critic.backward(joined_.get(), rows, first == 0);
    sums.mean += s.mean, sums.loss += s.loss;
  }

  // the gradient of a critic's actions, of the rows where it counts
  void slope(std::size_t critic, std::size_t critics, int rows, float share) {
    Layers<V, D>& mine = critics_[critic];
    float* d = mine.result_gradients();
    judged_[critic].clear();
    for (int r = 0; r < rows; ++r)
      if (const float counts = part(critic, critics, r); counts > 0) {
        *d = -share * counts, d += mine.stride();
        judged_[critic].push_back(r);
      }
    mine.keep(judged_[critic]);
    slopes_[critic] =
        mine.to_inputs(joined_.get(), static_cast<int>(judged_[critic].size()), networks_.inputs) + networks_.inputs;
  }

  // The gradient of a half's policy that lets values rise, and its entropy; returns the sum of the values.
  double actor_backward(int k, Half half, std::size_t judges, float share, bool is_first) {
    if (half.size() == 0) return 0;
    Layers<V, D>& policy = actor_[static_cast<std::size_t>(k)];
    const int stride = policy.stride();
    const auto row_of = [&](int r) { return policy.result_gradients() + (r - half.begin) * stride; };
    for (int r = half.begin; r < half.end; ++r) std::fill_n(row_of(r), networks_.actions, 0.0f);
    for (std::size_t c = 0; c < judges; ++c) {
      const std::vector<int>& rows = judged_[c];
      for (auto row = std::lower_bound(rows.begin(), rows.end(), half.begin); row != rows.end() && *row < half.end;
           ++row)
        for (int i = 0; i < networks_.actions; ++i)
          row_of(*row)[i] += slopes_[c][(row - rows.begin()) * distance(both_) + i];
    }
    const float entropy_slope = static_cast<float>(temperature()) * share;
    double sum = 0;
    for (int r = half.begin; r < half.end; ++r) sum += lowest(judges, r), through_actions(r, entropy_slope, row_of(r));
    policy.backward(inputs_of(half), half.size(), is_first);
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
  std::vector<float> other_gradient_;  // of the actor, by the second half of each block
  Stacks actor_, target_actor_;  // for each half
  Stacks critics_, target_critics_;
  Floats inputs_, joined_, following_;  // of a block, padded; the last with what comes next
  std::vector<SquashedNormal> drawn_;  // a stochastic policy's actions
  std::vector<float> columns_;  // values of each critic, and log-probabilities
  std::vector<std::vector<int>> judged_;  // rows whose lowest value is a critic's,
  std::vector<const float*> slopes_;  // and the gradients of these rows' actions
};

}  // namespace
}  // namespace headrace::learner
