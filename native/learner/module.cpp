// The extension module headrace_learner._learner.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>

#include "learner.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::learner {
namespace {

template <class T, int dims>
using Array = nb::ndarray<T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;
template <int dims>
using In = Array<const float, dims>;
template <int dims>
using Out = Array<float, dims>;
using Order = Array<const std::int64_t, 2>;

// outputs, whether they come first, the addresses of weights, biases and their gradients, and the first and number of inputs
using PartAddresses = std::tuple<int, bool, std::uintptr_t, std::uintptr_t, std::uintptr_t, std::uintptr_t, int, int>;
using LayerAddresses = std::pair<int, std::vector<PartAddresses>>;
using StackAddresses = std::vector<std::vector<LayerAddresses>>;
using AdamArrays = std::tuple<Out<1>, Out<1>, Out<1>, Out<1>, Out<1>>;
using Betas = std::tuple<double, double, double>;

float* at(std::uintptr_t address) { return reinterpret_cast<float*>(address); }

Network network_of(int inputs, bool relu, const StackAddresses& stacks) {
  Network network{inputs, relu ? Activation::kRelu : Activation::kTanh, {}};
  for (const auto& layers : stacks) {
    Stack stack;
    for (const auto& [columns, parts] : layers) {
      Layer layer{columns, {}};
      for (const auto& [outputs, first, weight, bias, weight_gradient, bias_gradient, begin, count] : parts)
        layer.parts.push_back({outputs, first, at(weight), at(bias), at(weight_gradient), at(bias_gradient), begin, count});
      stack.push_back(std::move(layer));
    }
    network.stacks.push_back(std::move(stack));
  }
  return network;
}

void check(bool fits, const char* what) {
  if (!fits) throw std::invalid_argument(what);
}

Adam adam_of(const AdamArrays& arrays, const Betas& betas) {
  const auto& [parameters, gradient, mean, square, steps] = arrays;
  for (const auto* each : {&gradient, &mean, &square}) check(each->size() == parameters.size(), "moments of other parameters");
  check(parameters.size() % 16 == 0 && steps.size() == 1, "parameters in whole cache lines, and a number of steps");
  const auto [beta1, beta2, epsilon] = betas;
  return {parameters.data(), gradient.data(), mean.data(), square.data(), steps.data(), static_cast<std::int64_t>(parameters.size()), beta1, beta2, epsilon};
}

// a learner, and the sizes of its network
struct Bound {
  std::unique_ptr<Learner> learner;
  std::size_t inputs, outputs;

  Bound(const Network& network, int width) : learner(make_learner(network, {width})), inputs(static_cast<std::size_t>(network.inputs)), outputs(0) {
    for (const Stack& stack : network.stacks)
      for (const Part& part : stack.back().parts) outputs += static_cast<std::size_t>(part.outputs);
  }
};

// the columns of a rollout, whose lengths agree
Rollout rollout_of(const Bound& bound, const In<2>& inputs, const std::optional<Array<const std::int64_t, 1>>& choices,
                   const std::optional<In<2>>& actions, const std::vector<In<1>>& columns,
                   const std::optional<Array<const bool, 2>>& forbidden) {
  const std::size_t rows = inputs.shape(0);
  check(inputs.shape(1) == bound.inputs && columns.size() == 4, "inputs of another network");
  check(!choices || choices->shape(0) == rows, "as many choices as inputs");
  check(!actions || actions->shape(0) == rows, "as many actions as inputs");
  for (const auto& column : columns) check(column.shape(0) == rows, "as many numbers as inputs");
  check(!forbidden || (choices && forbidden->shape(0) == rows && forbidden->shape(1) + 1 == bound.outputs), "a mask of each choice");
  return {inputs.data(),     choices ? choices->data() : nullptr, actions ? actions->data() : nullptr, columns[0].data(),
          columns[1].data(), columns[2].data(),                   columns[3].data(),
          forbidden ? forbidden->data() : nullptr};
}

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;
using Column = nb::ndarray<const float, nb::ndim<1>, nb::device::cpu>;

// transitions whose rows lie anywhere in memory
struct Batch {
  Transitions transitions;

  Batch(const Matrix& inputs, const std::vector<Column>& columns, const Matrix& next_inputs, const std::optional<Column>& weights, int size)
      : transitions{static_cast<int>(inputs.shape(0)), {}, {}, {}, {}, {}, {}} {
    check(transitions.rows > 0 && columns.size() == 2, "transitions, rewards and discounts");
    transitions.inputs = rows_of(inputs, size);
    transitions.next_inputs = rows_of(next_inputs, size);
    transitions.rewards = rows_of(columns[0]), transitions.discounts = rows_of(columns[1]);
    if (weights) transitions.weights = rows_of(*weights);
  }

  Rows rows_of(const Matrix& all, int size) const {
    check(all.shape(0) == static_cast<std::size_t>(transitions.rows) && all.shape(1) == static_cast<std::size_t>(size) && (size == 1 || all.stride(1) == 1),
          "as many rows as transitions, of the network's inputs");
    return {all.data(), static_cast<std::ptrdiff_t>(all.stride(0))};
  }

  Rows rows_of(const Column& all) const {
    check(all.shape(0) == static_cast<std::size_t>(transitions.rows), "as many numbers as transitions");
    return {all.data(), static_cast<std::ptrdiff_t>(all.stride(0))};
  }
};

struct BoundActorCritic {
  int inputs, actions;
  bool stochastic;
  std::unique_ptr<ActorCriticLearner> learner;

  std::vector<double> update(const Batch& batch, const std::optional<In<2>>& next_noise, const std::optional<In<2>>& noise, const ActorCriticRates& rates,
                             bool critics, bool actor) const {
    for (const auto* each : {&next_noise, &noise})
      check(!*each || ((*each)->shape(0) == static_cast<std::size_t>(batch.transitions.rows) && (*each)->shape(1) == static_cast<std::size_t>(actions)), "noise for each action");
    check(!stochastic || ((next_noise || !critics) && (noise || !actor)), "a stochastic policy needs noise");
    std::vector<double> found;
    nb::gil_scoped_release unlocked;
    if (critics) {
      const CriticStatistics s = learner->improve_critics(batch.transitions, next_noise ? next_noise->data() : nullptr, rates);
      found = {s.loss, s.mean, s.gradient_norm};
    }
    if (actor) {
      const ActorStatistics s = learner->improve_actor(batch.transitions, noise ? noise->data() : nullptr, rates);
      found.insert(found.end(), {s.loss, s.gradient_norm, s.entropy, s.temperature});
    }
    return found;
  }
};

struct BoundQ {
  int inputs, actions;
  std::unique_ptr<QLearner> learner;
};

void check_rows(const Order& order, std::size_t rows) {
  for (std::size_t i = 0; i < order.size(); ++i)
    check(order.data()[i] >= 0 && static_cast<std::size_t>(order.data()[i]) < rows, "a row that the rollout has not");
}

}  // namespace
}  // namespace headrace::learner

NB_MODULE(_learner, m) {
  using namespace headrace::learner;
  m.doc() = "Updates of small networks on a CPU.";
  nb::set_leak_warnings(false);
  m.def("widths", [] { return widths(); }, "Floats in a register, of those that this processor has; the best first.");
  m.def("approach",
        [](const Out<1>& target, const In<1>& source, float rate) {
          check(target.size() == source.size(), "as many parameters as targets");
          nb::gil_scoped_release unlocked;
          approach(target.data(), source.data(), static_cast<std::int64_t>(target.size()), rate);
        },
        "target"_a, "source"_a, "rate"_a, "target += rate (source - target), of float32[P]; on one thread.");
  nb::class_<Bound>(m, "Learner",
                    "A network whose parameters, and their gradients, are the caller's memory, by addresses.\n\n"
                    "stacks: for each, its layers: (inputs, parts); a part is (outputs, whether weights are [outputs, inputs],\n"
                    "weight, bias, gradient of the weight, gradient of the bias, the first of its inputs, their number or 0 for all).")
      .def("__init__",
           [](Bound* self, int inputs, bool relu, const StackAddresses& stacks, int width) {
             new (self) Bound(network_of(inputs, relu, stacks), width);
           },
           nb::kw_only(), "inputs"_a, "relu"_a, "stacks"_a, "width"_a = 0)
      .def("refresh", [](Bound& self) { self.learner->refresh(); }, "Parameters have changed by other hands.")
      .def("forward",
           [](Bound& self, const In<2>& inputs, const Out<2>& outputs) {
             check(inputs.shape(1) == self.inputs && outputs.shape(1) == self.outputs && inputs.shape(0) == outputs.shape(0), "shapes of another network");
             self.learner->forward(inputs.data(), static_cast<int>(inputs.shape(0)), outputs.data());
           },
           "inputs"_a, "outputs"_a, "Writes the outputs float32[B, all stacks'] of inputs float32[B, D].",
           nb::call_guard<nb::gil_scoped_release>())
      .def("backward",
           [](Bound& self, const In<2>& inputs, const In<2>& gradients) {
             check(inputs.shape(1) == self.inputs && gradients.shape(1) == self.outputs && inputs.shape(0) == gradients.shape(0), "shapes of another network");
             self.learner->backward(inputs.data(), static_cast<int>(inputs.shape(0)), gradients.data());
           },
           "inputs"_a, "gradients"_a, "Writes the gradients of all parameters, given those of the outputs.",
           nb::call_guard<nb::gil_scoped_release>())
      .def("epoch",
           [](Bound& self, const In<2>& inputs, const std::optional<Array<const std::int64_t, 1>>& choices,
              const std::optional<In<2>>& actions, const std::vector<In<1>>& columns, const Order& order, int size,
              std::pair<std::uintptr_t, std::uintptr_t> log_std, std::tuple<double, double, double, double, double> rates,
              double value_clip, bool normalise, const AdamArrays& adam, Betas betas, bool threads,
              const std::optional<Array<const bool, 2>>& forbidden) {
             const Rollout rollout = rollout_of(self, inputs, choices, actions, columns, forbidden);
             check_rows(order, inputs.shape(0));
             const bool continuous = actions.has_value();
             check(continuous != choices.has_value() && (!continuous || actions->shape(1) == static_cast<std::size_t>(size)), "choices or actions");
             check(self.outputs == static_cast<std::size_t>(size) + 1, "a value beside the distribution's parameters");
             const auto [rate, clip, entropy, value, norm] = rates;
             check(order.size() > 0, "no samples");
             const ActorCritic heads{continuous, size, size, at(log_std.first), at(log_std.second)};
             const Adam state = adam_of(adam, betas);
             Statistics s;
             {
               nb::gil_scoped_release unlocked;
               s = self.learner->epoch(heads, rollout, order.data(), static_cast<int>(order.shape(0)), static_cast<int>(order.shape(1)),
                                       {rate, clip, entropy, value, norm, value_clip, normalise}, state, threads);
             }
             return std::vector<double>{s.policy_loss, s.value_loss, s.entropy, s.approx_kl, s.clip_fraction, s.gradient_norm};
           },
           nb::kw_only(), "inputs"_a, "choices"_a.none(), "actions"_a.none(), "columns"_a, "order"_a, "size"_a, "log_std"_a, "rates"_a,
           "value_clip"_a, "normalise"_a, "adam"_a, "betas"_a, "threads"_a, "forbidden"_a = nb::none(),
           "Makes one update of proximal policy optimisation for each row of order, int64[minibatches, size].\n\n"
           "columns: log-probabilities, advantages, returns, values. size: logits, or dimensions of an action. log_std:\n"
           "addresses of the logarithms of deviations and of their gradient. rates: learning rate, clip range, entropy\n"
           "coefficient, value coefficient, largest norm. adam: parameters, gradient, mean, square, steps.\n"
           "forbidden: masked choices, bool[rows, size].\n"
           "Returns averages: policy loss, value loss, entropy, KL, share of clipped, gradient's norm.");

  m.def("has_bfloat16", [] { return !widths(true).empty(); }, "Whether this processor multiplies numbers of bfloat16, and the system lets it.");
  nb::class_<BoundActorCritic>(m, "ActorCriticLearner",
                               "A policy and its critics, whose inputs are followed by actions; networks as for Learner.\n\n"
                               "A policy without target_actor is stochastic: means and logarithms of deviations of variables whose tanh are\n"
                               "actions. adams: of actor, critics and, of a stochastic policy, temperature: parameters, gradient, mean, square, steps.")
      .def("__init__",
           [](BoundActorCritic* self, int inputs, int actions, bool relu, const StackAddresses& actor, const StackAddresses& critics,
              const StackAddresses& target_actor, const StackAddresses& target_critics, const std::vector<AdamArrays>& adams, Betas betas, int width, bool bfloat16) {
             const bool stochastic = target_actor.empty();
             check(adams.size() == (stochastic ? 3u : 2u), "an optimiser for each part");
             ActorCriticNetworks networks{inputs, actions, network_of(inputs, relu, actor), network_of(inputs + actions, relu, critics),
                                          network_of(inputs, relu, target_actor), network_of(inputs + actions, relu, target_critics),
                                          adam_of(adams[0], betas), adam_of(adams[1], betas), adam_of(adams.back(), betas)};
             new (self) BoundActorCritic{inputs, actions, stochastic, make_actor_critic_learner(std::move(networks), {width, bfloat16})};
           },
           nb::kw_only(), "inputs"_a, "actions"_a, "relu"_a, "actor"_a, "critics"_a, "target_actor"_a, "target_critics"_a, "adams"_a, "betas"_a,
           "width"_a = 0, "bfloat16"_a = false)
      .def("update",
           [](BoundActorCritic& self, const Matrix& inputs, const Matrix& actions, const std::vector<Column>& columns, const Matrix& next_inputs,
              const std::optional<Column>& weights, const std::optional<In<2>>& next_noise, const std::optional<In<2>>& noise,
              std::tuple<double, double, double, double, double> rates, bool critics, bool actor, bool threads) {
             Batch batch(inputs, columns, next_inputs, weights, self.inputs);
             batch.transitions.actions = batch.rows_of(actions, self.actions);
             const auto [critic_rate, actor_rate, norm, weight, entropy] = rates;
             return self.update(batch, next_noise, noise, {critic_rate, actor_rate, norm, weight, entropy, threads}, critics, actor);
           },
           nb::kw_only(), "inputs"_a, "actions"_a, "columns"_a, "next_inputs"_a, "weights"_a.none(), "next_noise"_a.none(), "noise"_a.none(), "rates"_a,
           "critics"_a, "actor"_a, "threads"_a,
           "Makes a gradient step of the critics, and one of the actor.\n\n"
           "columns: rewards, discounts. noise float32[B, A]: standard normal; for target_actor, what is added to its actions.\n"
           "rates: critics' and actor's learning rate, largest norm, weight of each critic's mean squared error, target entropy.\n"
           "threads: whether two critics, and halves of the actor's samples, may have a thread each, which changes no result.\n"
           "Returns the critics' loss, mean value and gradient's norm; the actor's loss, gradient's norm, entropy, temperature.");
  nb::class_<BoundQ>(m, "QLearner",
                     "Action values and their targets, networks as for Learner; of dueling ones the last output is the state's value.")
      .def("__init__",
           [](BoundQ* self, int inputs, int actions, bool relu, bool dueling, const StackAddresses& q, const StackAddresses& target, const AdamArrays& adam,
              Betas betas, int width, bool bfloat16) {
             check(q.size() == 1 && target.size() == 1, "one network, and its target");
             QNetworks networks{actions, dueling, network_of(inputs, relu, q), network_of(inputs, relu, target), adam_of(adam, betas)};
             new (self) BoundQ{inputs, actions, make_q_learner(std::move(networks), {width, bfloat16})};
           },
           nb::kw_only(), "inputs"_a, "actions"_a, "relu"_a, "dueling"_a, "q"_a, "target"_a, "adam"_a, "betas"_a, "width"_a = 0, "bfloat16"_a = false)
      .def("update",
           [](BoundQ& self, const Matrix& inputs, const Array<const std::int64_t, 1>& actions, const std::vector<Column>& columns, const Matrix& next_inputs,
              const std::optional<Column>& weights, std::tuple<double, double> rates, bool chooses, bool huber, const Out<1>& errors) {
             const Batch batch(inputs, columns, next_inputs, weights, self.inputs);
             const auto rows = static_cast<std::size_t>(batch.transitions.rows);
             check(actions.shape(0) == rows && errors.shape(0) == rows, "as many actions and errors as transitions");
             for (std::size_t r = 0; r < rows; ++r) check(actions.data()[r] >= 0 && actions.data()[r] < self.actions, "an action that there is not");
             const auto [rate, norm] = rates;
             nb::gil_scoped_release unlocked;
             const CriticStatistics s = self.learner->improve(batch.transitions, actions.data(), {rate, norm, chooses, huber}, errors.data());
             return std::vector<double>{s.loss, s.mean, s.gradient_norm};
           },
           nb::kw_only(), "inputs"_a, "actions"_a, "columns"_a, "next_inputs"_a, "weights"_a.none(), "rates"_a, "chooses"_a, "huber"_a, "errors"_a,
           "Makes a gradient step; writes the absolute errors of values.\n\n"
           "columns: rewards, discounts. rates: learning rate, largest norm. chooses: whether the network, not its target, chooses\n"
           "the next action. Returns the loss, the mean value and the gradient's norm.");
}
