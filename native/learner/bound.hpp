// What the extension module's classes are: learners with the arrays that they read and write, which are checked here.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "arrays.hpp"

namespace headrace::learner {
namespace {

// of minibatches of a rollout's rows
void check_order(const Order& order, std::size_t rows) {
  check(order.size() > 0, "no samples");
  for (std::size_t i = 0; i < order.size(); ++i)
    check(order.data()[i] >= 0 && static_cast<std::size_t>(order.data()[i]) < rows, "a row that the rollout has not");
}

void check_choices(const Numbers& choices, std::size_t count) {
  for (std::size_t i = 0; i < choices.size(); ++i)
    check(choices.data()[i] >= 0 && static_cast<std::size_t>(choices.data()[i]) < count, "a choice that there is not");
}

// a learner, the sizes of its network, and the memory that it has
struct Bound {
  Stacks stacks;
  std::optional<Out<1>> log_std, log_std_gradient;
  Sight sight;
  std::unique_ptr<Learner> learner;
  std::size_t outputs = 0;
  std::mutex alone;  // of threads that act with one network, one at a time: they share a block's memory

  Bound(Sight seen, bool relu, Stacks given, std::optional<Out<1>> deviations, std::optional<Out<1>> gradient,
        Registers registers)
      : stacks(std::move(given)),
        log_std(std::move(deviations)),
        log_std_gradient(std::move(gradient)),
        sight(std::move(seen)),
        learner(make_learner(network_of(sight, relu, stacks, true), registers)) {
    for (const auto& layers : stacks)
      for (const Linear& part : layers.back()) outputs += static_cast<std::size_t>(part.outputs());
    check(log_std.has_value() == log_std_gradient.has_value(), "logarithms of deviations, and their gradient");
    check(!log_std || (log_std->size() + 1 == outputs && log_std_gradient->size() == log_std->size()),
          "a deviation of each action");
  }

  // of samples with results, or with their gradients
  template <class A>
  Observations observations(const Seen& inputs, const A& results) const {
    check(results.shape(1) == outputs, "results of another network");
    return sight.observations(inputs, results.shape(0));
  }

  // the columns of a rollout, whose lengths agree
  Rollout rollout(const Seen& given, const std::optional<Numbers>& choices, const std::optional<In<2>>& actions,
                  const In<1>& log_probs, const In<1>& advantages, const In<1>& returns, const In<1>& values,
                  const std::optional<Array<const bool, 2>>& forbidden, const Order& order) const {
    const std::size_t rows = rows_of(given), size = outputs - 1;
    check(log_std.has_value() == actions.has_value() && log_std.has_value() != choices.has_value(),
          "choices, or actions with deviations");
    check(!choices || choices->shape(0) == rows, "as many choices as inputs");
    check(!actions || (actions->shape(0) == rows && actions->shape(1) == size), "as many actions as inputs");
    for (const auto* column : {&log_probs, &advantages, &returns, &values})
      check(column->shape(0) == rows, "as many numbers as inputs");
    check(!forbidden || (choices && forbidden->shape(0) == rows && forbidden->shape(1) == size),
          "a mask of each choice");
    check_order(order, rows);
    if (choices) check_choices(*choices, size);
    return {sight.observations(given, rows),
            data(choices),
            data(actions),
            log_probs.data(),
            advantages.data(),
            returns.data(),
            values.data(),
            data(forbidden)};
  }
};

// transitions
struct Batch {
  Transitions transitions;

  Batch(const Seen& inputs, const Column& rewards, const Column& discounts, const Seen& next_inputs,
        const std::optional<Column>& weights, const Sight& sight)
      : transitions{static_cast<int>(learner::rows_of(inputs)), {}, {}, {}, {}, {}, {}} {
    check(transitions.rows > 0, "no transitions");
    const auto rows = static_cast<std::size_t>(transitions.rows);
    transitions.inputs = sight.observations(inputs, rows);
    transitions.next_inputs = sight.observations(next_inputs, rows);
    transitions.rewards = rows_of(rewards), transitions.discounts = rows_of(discounts);
    if (weights) transitions.weights = rows_of(*weights);
  }

  Rows rows_of(const Matrix& all, int size) const {
    check(has(all) && all.shape(1) == static_cast<std::size_t>(size) && (size == 1 || all.stride(1) == 1),
          "as many rows as transitions, of the network's inputs");
    return {all.data(), static_cast<std::ptrdiff_t>(all.stride(0))};
  }

  Rows rows_of(const Column& all) const {
    check(has(all), "as many numbers as transitions");
    return {all.data(), static_cast<std::ptrdiff_t>(all.stride(0))};
  }

  template <class A>
  bool has(const A& all) const {
    return all.shape(0) == static_cast<std::size_t>(transitions.rows);
  }
};

// what a learner from a replay has, with the memory of its networks
struct BoundActorCritic {
  int inputs, actions;
  bool stochastic;
  std::vector<Stacks> stacks;
  std::vector<AdamArrays> adams;
  std::unique_ptr<ActorCriticLearner> learner;

  std::vector<double> update(const Batch& batch, const std::optional<In<2>>& next_noise,
                             const std::optional<In<2>>& noise, const ActorCriticRates& rates, bool critics,
                             bool actor) const {
    for (const auto* each : {&next_noise, &noise})
      check(!*each || (batch.has(**each) && (*each)->shape(1) == static_cast<std::size_t>(actions)),
            "noise for each action");
    check(!stochastic || ((next_noise || !critics) && (noise || !actor)), "a stochastic policy needs noise");
    std::vector<double> found;
    nb::gil_scoped_release unlocked;
    if (critics) {
      const CriticStatistics s = learner->improve_critics(batch.transitions, data(next_noise), rates);
      found = {s.loss, s.mean, s.gradient_norm};
    }
    if (actor) {
      const ActorStatistics s = learner->improve_actor(batch.transitions, data(noise), rates);
      found.insert(found.end(), {s.loss, s.gradient_norm, s.entropy, s.temperature});
    }
    return found;
  }
};

struct BoundValues {
  Sight sight;
  std::size_t actions;
  Stacks stacks;
  AdamArrays radam;
  std::unique_ptr<ValueLearner> learner;
};

struct BoundQ {
  Sight sight;
  int actions;
  std::optional<TrunkArrays> target_trunk;
  std::vector<Stacks> stacks;
  AdamArrays adam;
  std::unique_ptr<QLearner> learner;
};

}  // namespace
}  // namespace headrace::learner
