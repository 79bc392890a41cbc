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

// outputs, whether they come first, and the addresses of weights, biases and their gradients
using PartAddresses = std::tuple<int, bool, std::uintptr_t, std::uintptr_t, std::uintptr_t, std::uintptr_t>;
using LayerAddresses = std::pair<int, std::vector<PartAddresses>>;

float* at(std::uintptr_t address) { return reinterpret_cast<float*>(address); }

Network network_of(int inputs, bool relu, const std::vector<std::vector<LayerAddresses>>& stacks) {
  Network network{inputs, relu ? Activation::kRelu : Activation::kTanh, {}};
  for (const auto& layers : stacks) {
    Stack stack;
    for (const auto& [columns, parts] : layers) {
      Layer layer{columns, {}};
      for (const auto& [outputs, first, weight, bias, weight_gradient, bias_gradient] : parts)
        layer.parts.push_back({outputs, first, at(weight), at(bias), at(weight_gradient), at(bias_gradient)});
      stack.push_back(std::move(layer));
    }
    network.stacks.push_back(std::move(stack));
  }
  return network;
}

void check(bool fits, const char* what) {
  if (!fits) throw std::invalid_argument(what);
}

// a learner, and the sizes of its network
struct Bound {
  std::unique_ptr<Learner> learner;
  std::size_t inputs, outputs;

  Bound(const Network& network, int width) : learner(make_learner(network, width)), inputs(static_cast<std::size_t>(network.inputs)), outputs(0) {
    for (const Stack& stack : network.stacks)
      for (const Part& part : stack.back().parts) outputs += static_cast<std::size_t>(part.outputs);
  }
};

// the columns of a rollout, whose lengths agree
Rollout rollout_of(const Bound& bound, const In<2>& inputs, const std::optional<Array<const std::int64_t, 1>>& choices,
                   const std::optional<In<2>>& actions, const std::vector<In<1>>& columns) {
  const std::size_t rows = inputs.shape(0);
  check(inputs.shape(1) == bound.inputs && columns.size() == 4, "inputs of another network");
  check(!choices || choices->shape(0) == rows, "as many choices as inputs");
  check(!actions || actions->shape(0) == rows, "as many actions as inputs");
  for (const auto& column : columns) check(column.shape(0) == rows, "as many numbers as inputs");
  return {inputs.data(),     choices ? choices->data() : nullptr, actions ? actions->data() : nullptr, columns[0].data(),
          columns[1].data(), columns[2].data(),                   columns[3].data()};
}

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
  m.def("widths", &widths, "Floats in a register, of those that this processor has; the best first.");
  nb::class_<Bound>(m, "Learner",
                    "A network whose parameters, and their gradients, are the caller's memory, by addresses.\n\n"
                    "stacks: for each, its layers: (inputs, parts); a part is (outputs, whether weights are [outputs, inputs],\n"
                    "weight, bias, gradient of the weight, gradient of the bias).")
      .def("__init__",
           [](Bound* self, int inputs, bool relu, const std::vector<std::vector<LayerAddresses>>& stacks, int width) {
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
              double value_clip, bool normalise, const std::tuple<Out<1>, Out<1>, Out<1>, Out<1>>& adam,
              std::tuple<double, double, double> betas, std::int64_t steps) {
             const Rollout rollout = rollout_of(self, inputs, choices, actions, columns);
             check_rows(order, inputs.shape(0));
             const bool continuous = actions.has_value();
             check(continuous != choices.has_value() && (!continuous || actions->shape(1) == static_cast<std::size_t>(size)), "choices or actions");
             check(self.outputs == static_cast<std::size_t>(size) + 1, "a value beside the distribution's parameters");
             const auto& [parameters, gradient, mean, square] = adam;
             for (const auto* each : {&gradient, &mean, &square}) check(each->size() == parameters.size(), "moments of other parameters");
             check(parameters.size() % 16 == 0, "parameters in whole cache lines");
             const auto [rate, clip, entropy, value, norm] = rates;
             const auto [beta1, beta2, epsilon] = betas;
             const ActorCritic heads{continuous, size, size, at(log_std.first), at(log_std.second)};
             const Adam state{parameters.data(), gradient.data(), mean.data(), square.data(), static_cast<std::int64_t>(parameters.size()), beta1, beta2, epsilon};
             Statistics s;
             {
               nb::gil_scoped_release unlocked;
               s = self.learner->epoch(heads, rollout, order.data(), static_cast<int>(order.shape(0)), static_cast<int>(order.shape(1)),
                                       {rate, clip, entropy, value, norm, value_clip, normalise}, state, steps);
             }
             return std::vector<double>{s.policy_loss, s.value_loss, s.entropy, s.approx_kl, s.clip_fraction, s.gradient_norm};
           },
           nb::kw_only(), "inputs"_a, "choices"_a.none(), "actions"_a.none(), "columns"_a, "order"_a, "size"_a, "log_std"_a, "rates"_a,
           "value_clip"_a, "normalise"_a, "adam"_a, "betas"_a, "steps"_a,
           "Makes one update of proximal policy optimisation for each row of order, int64[minibatches, size].\n\n"
           "columns: log-probabilities, advantages, returns, values. size: logits, or dimensions of an action. log_std:\n"
           "addresses of the logarithms of deviations and of their gradient. rates: learning rate, clip range, entropy\n"
           "coefficient, value coefficient, largest norm. adam: parameters, gradient, mean, square.\n"
           "Returns averages: policy loss, value loss, entropy, KL, share of clipped, gradient's norm.");
}
