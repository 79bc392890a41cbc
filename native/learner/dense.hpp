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

constexpr int kRows = 64;  // samples of a block

// floats at the beginning of a cache line, zero at first
class Floats {
 public:
  explicit Floats(std::size_t n = 0) : data_(static_cast<float*>(::operator new(std::max<std::size_t>(n, 1) * sizeof(float), kLine))) {
    std::fill_n(data_.get(), n, 0.0f);
  }
  float* get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free { void operator()(float* p) const { ::operator delete(p, kLine); } };
  std::unique_ptr<float, Free> data_;
};

template <class V>
class Dense {
 public:
  explicit Dense(const Layer& layer)
      : layer_(layer),
        inputs(layer.inputs),
        outputs(count(layer)),
        weight_(size()), bias_(static_cast<std::size_t>(padded(outputs))), transposed_(static_cast<std::size_t>(outputs * distance(inputs))),
        weight_gradient_(size()), bias_gradient_(static_cast<std::size_t>(padded(outputs))) {}

  // Takes the weights as they are now.
  void pack() {
    each_weight([&](const Part& part, int i, int o, std::ptrdiff_t place) {
      weight_.get()[i * stride() + o] = transposed_.get()[o * distance(inputs) + i] = part.weight[place];
    });
    int o = 0;
    for (const Part& part : layer_.parts) std::copy_n(part.bias, part.outputs, bias_.get() + o), o += part.outputs;
  }

  void clear_gradients() {
    std::fill_n(weight_gradient_.get(), size(), 0.0f);
    std::fill_n(bias_gradient_.get(), padded(outputs), 0.0f);
  }

  void write_gradients() const {
    each_weight([&](const Part& part, int i, int o, std::ptrdiff_t place) { part.weight_gradient[place] = weight_gradient_.get()[i * stride() + o]; });
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

  // adds what rows with output gradients d contribute to the gradients of parameters
  void add_gradients(const float* x, int rows, const float* d) {
    float* gradient = weight_gradient_.get();
    product<V>(inputs, padded(outputs), rows, {x, 1, distance(inputs)}, d, stride(),
               [&](int m, int n) { return load<V>(gradient + m * stride() + n); },
               [&](int m, int n, V sum) { store(gradient + m * stride() + n, sum); });
    for (int n = 0; n < padded(outputs); n += V::width) {
      V sum = load<V>(bias_gradient_.get() + n);
      for (int r = 0; r < rows; ++r) sum = sum + load<V>(d + r * stride() + n);
      store(bias_gradient_.get() + n, sum);
    }
  }

  // dx = pass(d Wᵀ, x): the gradient of the inputs, through what made them
  template <class Pass>
  void input_gradients(const float* d, int rows, const float* x, float* dx, Pass pass) const {
    const int ld = distance(inputs);
    product<V>(rows, padded(inputs), outputs, {d, stride(), 1}, transposed_.get(), ld, [](int, int) { return V(0); },
               [&](int m, int n, V sum) { store(dx + m * ld + n, pass(sum, load<V>(x + m * ld + n))); });
  }

 private:
  static int count(const Layer& layer) {
    int n = 0;
    for (const Part& part : layer.parts) n += part.outputs;
    return n;
  }

  int stride() const { return distance(outputs); }
  std::size_t size() const { return static_cast<std::size_t>(padded(inputs) * stride()); }

  // Calls visit(part, input, output, where the weight is in its part); in strips, as one of the two matrices that
  // meet here is read or written across its rows.
  template <class Visit>
  void each_weight(Visit visit) const {
    int before = 0;
    for (const Part& part : layer_.parts) {
      const int rows = part.output_first ? part.outputs : inputs, columns = part.output_first ? inputs : part.outputs;
      for (int strip = 0; strip < columns; strip += kPad)
        for (int a = 0; a < rows; ++a)
          for (int b = strip; b < std::min(strip + kPad, columns); ++b) {
            const std::ptrdiff_t place = static_cast<std::ptrdiff_t>(a) * columns + b;
            part.output_first ? visit(part, b, before + a, place) : visit(part, a, before + b, place);
          }
      before += part.outputs;
    }
  }

  Layer layer_;

 public:
  const int inputs, outputs;

 private:
  Floats weight_, bias_, transposed_;  // [inputs, outputs], [outputs], [outputs, inputs]; columns padded
  Floats weight_gradient_, bias_gradient_;
};

// one stack, with a block's activations
template <class V>
class Layers {
 public:
  Layers(const Stack& stack, Activation activation) : relu_(activation == Activation::kRelu) {
    int widest = 0;
    for (const Layer& layer : stack) {
      dense_.emplace_back(layer);
      activations_.emplace_back(static_cast<std::size_t>(kRows * distance(dense_.back().outputs)));
      widest = std::max(widest, distance(dense_.back().outputs));
    }
    for (Floats& d : gradients_) d = Floats(static_cast<std::size_t>(kRows * widest));
  }

  int outputs() const { return dense_.back().outputs; }
  int stride() const { return distance(outputs()); }
  const float* results() const { return activations_.back().get(); }  // [rows, stride]
  float* result_gradients() { return gradients_[0].get(); }           // [rows, stride], for `backward`

  void pack() {
    for (auto& layer : dense_) layer.pack();
  }
  void clear_gradients() {
    for (auto& layer : dense_) layer.clear_gradients();
  }
  void write_gradients() const {
    for (const auto& layer : dense_) layer.write_gradients();
  }

  void forward(const float* x, int rows) {
    for (std::size_t l = 0; l < dense_.size(); ++l) {
      float* y = activations_[l].get();
      if (l + 1 == dense_.size()) dense_[l].forward(x, rows, y, [](V v) { return v; });
      else if (relu_) dense_[l].forward(x, rows, y, [](V v) { return max(v, V(0)); });
      else dense_[l].forward(x, rows, y, [](V v) { return tanh(v); });
      x = y;
    }
  }

  void backward(const float* x, int rows) {
    float *d = gradients_[0].get(), *next = gradients_[1].get();
    for (std::size_t l = dense_.size(); l-- > 0; std::swap(d, next)) {
      const float* below = l == 0 ? x : activations_[l - 1].get();
      dense_[l].add_gradients(below, rows, d);
      if (l == 0) break;
      if (relu_) dense_[l].input_gradients(d, rows, below, next, [](V g, V y) { return select(y > V(0), g, V(0)); });
      else dense_[l].input_gradients(d, rows, below, next, [](V g, V y) { return g * fnma(y, y, V(1)); });
    }
  }

 private:
  bool relu_;
  std::vector<Dense<V>> dense_;
  std::vector<Floats> activations_;
  Floats gradients_[2];
};

}  // namespace
}  // namespace headrace::learner
