// What Python gives to the compiled learner: arrays, whose shapes are checked here, with the networks that they make up.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <utility>

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
using Numbers = Array<const std::int64_t, 1>;
using Pixels = nb::ndarray<const std::uint8_t, nb::ndim<4>, nb::device::cpu>;  // samples lie anywhere in memory
using Order = Array<const std::int64_t, 2>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;  // whose rows lie anywhere in memory
using Column = nb::ndarray<const float, nb::ndim<1>, nb::device::cpu>;

void check(bool fits, const char* what) {
  if (!fits) throw std::invalid_argument(what);
}

template <class A>
auto data(const std::optional<A>& array) {
  return array ? array->data() : nullptr;
}

// an array that has a name, and is not copied into one of another type
auto array(const char* name) { return nb::arg(name).noconvert(); }
auto perhaps(const char* name) { return nb::arg(name).noconvert().none(); }

// a normalisation of a layer's outputs
struct NormArrays {
  Out<1> gain, shift;
  std::optional<Out<1>> gain_gradient, shift_gradient;
  float epsilon;

  Norm norm() const { return {gain.data(), shift.data(), data(gain_gradient), data(shift_gradient), epsilon}; }

  void check_shapes() const {
    check(gain.size() == shift.size(), "a shift for each gain");
    check(gain_gradient.has_value() == shift_gradient.has_value(), "gradients of gain and shift, or of neither");
    check(!gain_gradient || (gain_gradient->size() == gain.size() && shift_gradient->size() == gain.size()),
          "a gradient of each gain and shift");
  }
  // of so many channels, whose other parameters have gradients or not
  void check_fits(int channels, bool gradients) const {
    check(static_cast<int>(gain.size()) == channels, "a gain for each output");
    check(gain_gradient.has_value() == gradients, "gradients of all parameters, or of none");
  }
};

// some of a layer's outputs
struct Linear {
  Out<2> weight;
  Out<1> bias;
  std::optional<Out<2>> weight_gradient;
  std::optional<Out<1>> bias_gradient;
  bool output_first;
  int begin;
  std::optional<NormArrays> norm;

  int outputs() const { return static_cast<int>(weight.shape(output_first ? 0 : 1)); }
  int inputs() const { return static_cast<int>(weight.shape(output_first ? 1 : 0)); }
  Part part() const {
    return {outputs(),           output_first, weight.data(), bias.data(), data(weight_gradient),
            data(bias_gradient), begin,        inputs()};
  }

  void check_shapes() const {
    check(static_cast<int>(bias.size()) == outputs() && begin >= 0, "as many biases as outputs");
    check(weight_gradient.has_value() == bias_gradient.has_value(), "gradients of weight and bias, or of neither");
    check(!bias_gradient || bias_gradient->size() == bias.size(), "a gradient of each bias");
    for (int i = 0; weight_gradient && i < 2; ++i)
      check(weight_gradient->shape(i) == weight.shape(i), "a gradient of each weight");
    if (norm) norm->check_fits(outputs(), weight_gradient.has_value());
  }
};

// filters of one convolution, over pictures [channels, height, width]
struct Convolution {
  Out<4> weight;
  Out<1> bias;
  std::optional<Out<4>> weight_gradient;
  std::optional<Out<1>> bias_gradient;
  int stride;
  float factor;
  std::optional<NormArrays> norm;

  Filters filters(int channels, int height, int width) const {
    const auto side = static_cast<int>(weight.shape(1)), outputs = static_cast<int>(weight.shape(0));
    check(static_cast<int>(weight.shape(3)) == channels, "as many inputs as channels");
    check(side <= std::min(height, width), "a picture as large as a filter");
    return {channels,
            height,
            width,
            outputs,
            side,
            stride,
            weight.data(),
            bias.data(),
            data(weight_gradient),
            data(bias_gradient),
            factor,
            norm ? norm->norm() : Norm{}};
  }

  void check_shapes() const {
    check(weight.size() > 0 && weight.shape(1) == weight.shape(2) && stride > 0, "square filters, and a stride");
    check(bias.size() == weight.shape(0), "as many biases as outputs");
    check(weight_gradient.has_value() == bias_gradient.has_value(), "gradients of weight and bias, or of neither");
    check(!bias_gradient || bias_gradient->size() == bias.size(), "a gradient of each bias");
    for (std::size_t i = 0; weight_gradient && i < 4; ++i)
      check(weight_gradient->shape(i) == weight.shape(i), "a gradient of each weight");
    if (norm) norm->check_fits(static_cast<int>(weight.shape(0)), weight_gradient.has_value());
  }
};

// what comes before stacks of layers where observations are pictures
struct TrunkArrays {
  int channels, height, width;
  std::vector<Convolution> convolutions;
  std::optional<Array<const float, 3>> mean, scale;

  Trunk trunk() const {
    Trunk made{{}, data(mean), data(scale)};
    int c = channels, h = height, w = width;
    for (const Convolution& each : convolutions) {
      made.convolutions.push_back(each.filters(c, h, w));
      const Filters& f = made.convolutions.back();
      c = f.outputs, h = (h - f.side) / f.stride + 1, w = (w - f.side) / f.stride + 1;
    }
    return made;
  }

  int features() const {
    const Filters last = trunk().convolutions.back();
    return last.outputs * ((last.height - last.side) / last.stride + 1) * ((last.width - last.side) / last.stride + 1);
  }

  void check_shapes() const {
    check(channels > 0 && height * width >= 16 && !convolutions.empty(),
          "pictures of 16 pixels at least, and a convolution");
    check(mean.has_value() == scale.has_value(), "means and scales of pixels, or neither");
    for (const auto* each : {&mean, &scale})
      check(!*each || ((*each)->shape(0) == static_cast<std::size_t>(channels) &&
                       (*each)->shape(1) == static_cast<std::size_t>(height) &&
                       (*each)->shape(2) == static_cast<std::size_t>(width)),
            "a mean and a scale of each pixel");
    trunk();
  }
};

// rows of numbers, or pictures for a trunk
using Seen = std::variant<Matrix, Pixels>;

// what a network sees: so many numbers in a row, or pictures for its trunk
struct Sight {
  int inputs;
  std::optional<TrunkArrays> trunk;

  int features() const { return trunk ? trunk->features() : inputs; }

  Observations observations(const Seen& seen, std::size_t rows) const {
    if (!trunk) {
      const auto* numbers = std::get_if<Matrix>(&seen);
      check(numbers != nullptr && numbers->shape(0) == rows && numbers->shape(1) == static_cast<std::size_t>(inputs) &&
                (inputs == 1 || numbers->stride(1) == 1),
            "as many rows as transitions, of the network's inputs");
      return {numbers->data(), nullptr, static_cast<std::ptrdiff_t>(numbers->stride(0))};
    }
    const auto* pixels = std::get_if<Pixels>(&seen);
    check(pixels != nullptr && pixels->shape(0) == rows &&
              pixels->shape(1) == static_cast<std::size_t>(trunk->channels) &&
              pixels->shape(2) == static_cast<std::size_t>(trunk->height) &&
              pixels->shape(3) == static_cast<std::size_t>(trunk->width) && pixels->stride(3) == 1 &&
              pixels->stride(2) == trunk->width && pixels->stride(1) == trunk->height * trunk->width,
          "pictures of the network's shape, without gaps");
    return {nullptr, pixels->data(), static_cast<std::ptrdiff_t>(pixels->stride(0))};
  }
};

std::size_t rows_of(const Seen& seen) {
  return std::visit([](const auto& each) { return each.shape(0); }, seen);
}

// stacks of layers of parts
using Stacks = std::vector<std::vector<std::vector<Linear>>>;

// some_columns: whether a stack may read only the first of the inputs
Network network_of(const Sight& sight, bool relu, const Stacks& stacks, bool some_columns = false) {
  const int inputs = sight.features();
  Network network{inputs, relu ? Activation::kRelu : Activation::kTanh, {}, {}};
  if (sight.trunk) {
    check(relu && stacks.size() == 1, "one stack of layers with ReLU after a trunk");
    network.trunk = sight.trunk->trunk();
  }
  for (const auto& layers : stacks) {
    Stack stack;
    int before = inputs;
    for (const auto& parts : layers) {
      Layer layer{0, {}};
      int outputs = 0;
      for (const Linear& each : parts) {
        layer.parts.push_back(each.part());
        check(!each.norm || (parts.size() == 1 && &parts != &layers.back()),
              "a normalisation of all outputs of a layer, which is not the last one");
        if (each.norm) layer.norm = each.norm->norm();
        layer.inputs = std::max(layer.inputs, each.begin + each.inputs()), outputs += each.outputs();
      }
      if (some_columns && !sight.trunk && stack.empty() && layer.inputs < before)
        layer.columns = std::exchange(before, layer.inputs);
      check(layer.inputs == before && outputs > 0, "as many inputs as the layer below has outputs");
      before = outputs;
      stack.push_back(std::move(layer));
    }
    check(!stack.empty(), "a layer");
    network.stacks.push_back(std::move(stack));
  }
  return network;
}

// an optimiser's memory
struct AdamArrays {
  Out<1> parameters, gradient, mean, square, steps;
  double beta1, beta2, epsilon;

  Adam adam() const {
    return {parameters.data(),
            gradient.data(),
            mean.data(),
            square.data(),
            steps.data(),
            static_cast<std::int64_t>(parameters.size()),
            beta1,
            beta2,
            epsilon};
  }

  void check_shapes() const {
    for (const auto* each : {&gradient, &mean, &square})
      check(each->size() == parameters.size(), "moments of other parameters");
    check(steps.size() == 1, "one number of steps");
  }
};

}  // namespace
}  // namespace headrace::learner
