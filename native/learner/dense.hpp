// A network's layers with weights packed for products, and a block of samples on its way through them and back.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "learner.hpp"
#include "product.hpp"

namespace headrace::learner {
namespace {

// numbers at the beginning of a cache line, zero at first
template <class T>
class Line {
 public:
  explicit Line(std::size_t n = 0) : data_(static_cast<T*>(::operator new(std::max<std::size_t>(n, 1) * sizeof(T), kLine))) {
    std::fill_n(data_.get(), n, T(0));
  }
  T* get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free { void operator()(T* p) const { ::operator delete(p, kLine); } };
  std::unique_ptr<T, Free> data_;
};
using Floats = Line<float>;

inline Floats floats(int rows, int columns) { return Floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns)); }

template <class V>
class Dense {
 public:
  static constexpr int kRows = 64;  // samples of a block
  struct Scratch {};                // memory that the layers of a stack share

  Dense(const Layer& layer, const std::shared_ptr<Scratch>&)
      : layer_(layer), inputs(layer.inputs), outputs(count(layer)),
        direct_(layer.parts.size() == 1 && !layer.parts[0].output_first && outputs % kPad == 0 && inputs % kPad == 0),
        weight_(floats(padded(inputs), stride())), bias_(floats(1, padded(outputs))), transposed_(floats(outputs, distance(inputs))),
        weight_gradient_(floats(direct_ ? 0 : padded(inputs), stride())), bias_gradient_(floats(1, padded(outputs))) {}

  // Takes the weights as they are now.
  void pack() {
    each_part([&](const Part& part, int o, int has) {
      float *straight = weight_.get() + part.begin * stride() + o, *turned = transposed_.get() + o * distance(inputs) + part.begin;
      const int straight_ld = stride(), turned_ld = distance(inputs);
      if (part.output_first) {
        copy(part.weight, has, part.outputs, has, turned, turned_ld);
        transpose<V>(part.weight, has, part.outputs, has, straight, straight_ld);
      } else {
        copy(part.weight, part.outputs, has, part.outputs, straight, straight_ld);
        transpose<V>(part.weight, part.outputs, has, part.outputs, turned, turned_ld);
      }
    });
    pack_bias();
  }

  void pack_bias() {
    int o = 0;
    for (const Part& part : layer_.parts) std::copy_n(part.bias, part.outputs, bias_.get() + o), o += part.outputs;
  }

  void write_gradients() const {
    if (!direct_)
      each_part([&](const Part& part, int o, int has) {
        const float* from = weight_gradient_.get() + part.begin * stride() + o;
        if (part.output_first) transpose<V>(from, stride(), has, part.outputs, part.weight_gradient, has);
        else copy(from, stride(), has, part.outputs, part.weight_gradient, part.outputs);
      });
    write_bias_gradients();
  }

  void write_bias_gradients() const {
    int o = 0;
    for (const Part& part : layer_.parts) std::copy_n(bias_gradient_.get() + o, part.outputs, part.bias_gradient), o += part.outputs;
  }

  // y = activate(x W + b), of rows
  template <class Activate>
  void forward(const float* x, int rows, float* y, Activate activate) const {
    product<V>(rows, padded(outputs), inputs, {x, distance(inputs), 1}, weight_.get(), stride(),
               [&](int, int n) { return load<V>(bias_.get() + n); },
               [&](int m, int n, V sum) { store(y + m * stride() + n, activate(sum)); });
  }

  // The gradients of parameters are what the first rows with output gradients d contribute; further ones add to it.
  void add_gradients(const float* x, int rows, const float* d, bool first) {
    float* gradient = direct_ ? layer_.parts[0].weight_gradient : weight_gradient_.get();
    const int ld = direct_ ? outputs : stride();
    product<V>(inputs, padded(outputs), rows, {x, 1, distance(inputs)}, d, stride(),
               [&](int m, int n) { return first ? V(0) : load<V>(gradient + m * ld + n); },
               [&](int m, int n, V sum) { store(gradient + m * ld + n, sum); });
    add_bias_gradients(rows, d, first);
  }

  void add_bias_gradients(int rows, const float* d, bool first) {
    if (first) std::fill_n(bias_gradient_.get(), padded(outputs), 0.0f);
    for (int r = 0; r < rows; ++r)
      for (int n = 0; n < padded(outputs); n += V::width) store(bias_gradient_.get() + n, load<V>(bias_gradient_.get() + n) + load<V>(d + r * stride() + n));
  }

  // dx = pass(d Wᵀ, x): the gradient of the inputs, through what made them; of those from a whole line on
  template <class Pass>
  void input_gradients(const float* d, int rows, const float* x, float* dx, int from, Pass pass) const {
    const int ld = distance(inputs);
    product<V>(rows, padded(inputs) - from, outputs, {d, stride(), 1}, transposed_.get() + from, ld, [](int, int) { return V(0); },
               [&](int m, int n, V sum) { store(dx + m * ld + from + n, pass(sum, load<V>(x + m * ld + from + n))); });
  }

 protected:
  int stride() const { return distance(outputs); }

 private:
  static int count(const Layer& layer) {
    int n = 0;
    for (const Part& part : layer.parts) n += part.outputs;
    return n;
  }

  // visit(part, the first of its outputs, its inputs)
  template <class Visit>
  void each_part(Visit visit) const {
    int o = 0;
    for (const Part& part : layer_.parts) visit(part, o, part.inputs == 0 ? inputs : part.inputs), o += part.outputs;
  }

  static void copy(const float* from, std::ptrdiff_t ld, int rows, int columns, float* to, std::ptrdiff_t to_ld) {
    for (int r = 0; r < rows; ++r) std::copy_n(from + r * ld, columns, to + r * to_ld);
  }

  Layer layer_;

 public:
  const int inputs, outputs;

 private:
  bool direct_;  // gradients of weights can be written where they belong
  Floats weight_;

 protected:
  Floats bias_;

 private:
  Floats transposed_, weight_gradient_;  // as the weights: [outputs, inputs], and [inputs, outputs]; columns padded

 protected:
  Floats bias_gradient_;
};

// one stack, with the activations of a block of rows
template <class V, class D>
class Layers {
 public:
  Layers(const Stack& stack, Activation activation, int rows = D::kRows) : relu_(activation == Activation::kRelu) {
    int widest = distance(stack.front().inputs);
    const auto scratch = std::make_shared<typename D::Scratch>();
    for (const Layer& layer : stack) {
      dense_.emplace_back(layer, scratch);
      const int stride = distance(dense_.back().outputs);
      activations_.push_back(floats(rows, stride));
      widest = std::max(widest, stride);
    }
    for (Floats& d : gradients_) d = floats(rows, widest);
  }

  int outputs() const { return dense_.back().outputs; }
  int stride() const { return distance(outputs()); }
  const float* results() const { return activations_.back().get(); }  // [rows, stride]
  float* result_gradients() { return gradients_[0].get(); }           // [rows, stride], for `backward`

  void pack() {
    for (auto& layer : dense_) layer.pack();
  }
  void write_gradients() const {
    for (const auto& layer : dense_) layer.write_gradients();
  }

  // of inputs x [rows, distance(inputs)]; returns the results
  const float* forward(const float* x, int rows) {
    for (std::size_t l = 0; l < dense_.size(); ++l) {
      float* y = activations_[l].get();
      if (l + 1 == dense_.size()) dense_[l].forward(x, rows, y, [](V v) { return v; });
      else if (relu_) dense_[l].forward(x, rows, y, [](V v) { return max(v, V(0)); });
      else dense_[l].forward(x, rows, y, [](V v) { return tanh(v); });
      x = y;
    }
    return x;
  }

  // the gradients of parameters: those of the first block, to which further ones add
  void backward(const float* x, int rows, bool first) { through(x, rows, true, first); }

  // the gradients of inputs, [rows, distance(inputs)], of which those before column `from` need not be there
  const float* to_inputs(const float* x, int rows, int from) {
    float* d = through(x, rows, false, false);
    float* next = d == gradients_[0].get() ? gradients_[1].get() : gradients_[0].get();
    dense_[0].input_gradients(d, rows, x, next, from / kPad * kPad, [](V g, V) { return g; });
    return next;
  }

 private:
  // returns the gradient of the first layer's outputs
  float* through(const float* x, int rows, bool parameters, bool first) {
    float *d = gradients_[0].get(), *next = gradients_[1].get();
    for (std::size_t l = dense_.size(); l-- > 0; std::swap(d, next)) {
      const float* below = l == 0 ? x : activations_[l - 1].get();
      if (parameters) dense_[l].add_gradients(below, rows, d, first);
      if (l == 0) break;
      if (relu_) dense_[l].input_gradients(d, rows, below, next, 0, [](V g, V y) { return select(y > V(0), g, V(0)); });
      else dense_[l].input_gradients(d, rows, below, next, 0, [](V g, V y) { return g * fnma(y, y, V(1)); });
    }
    return d;
  }

  bool relu_;
  std::vector<D> dense_;
  std::vector<Floats> activations_;
  Floats gradients_[2];
};

}  // namespace
}  // namespace headrace::learner
