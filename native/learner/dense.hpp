// A network's layers with weights packed for products, and a block of samples on its way through them and back.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <vector>

#include "learner.hpp"
#include "normaliser.hpp"
#include "numbers.hpp"
#include "product.hpp"
#include "sparse.hpp"

namespace headrace::learner {
namespace {

// numbers at the beginning of a cache line, zero at first
template <class T>
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t n = 0)
      : data_(static_cast<T*>(::operator new(std::max<std::size_t>(n, 1) * sizeof(T), kLine))) {
    std::fill_n(data_.get(), n, T(0));
  }
  T* get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(T* p) const { ::operator delete(p, kLine); }
  };
  std::unique_ptr<T, Free> data_;
};
using Floats = AlignedBuffer<float>;

inline Floats floats(int rows, int columns) {
  return Floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
}

template <class V>
class Dense {
 public:
  using Numbers = Singles<V>;  // of convolutions before such layers
  static constexpr int kRows = 64;  // samples of a block
  struct Scratch {};                // memory that the layers of a stack share

  Dense(const Layer& layer, const std::shared_ptr<Scratch>&)
      : layer_(layer),
        inputs(layer.inputs),
        outputs(count(layer)),
        direct_(layer.parts.size() == 1 && !layer.parts[0].output_first && outputs % kPad == 0 && inputs % kPad == 0),
        single_(outputs == 1),
        weight_(floats(padded(inputs), stride())),
        bias_(floats(1, padded(outputs))),
        transposed_(floats(outputs, distance(inputs))),
        weight_gradient_(floats(direct_ ? 0 : padded(inputs), stride())),
        bias_gradient_(floats(1, padded(outputs))) {}

  // Takes the weights as they are now; for the way back only if it is asked for.
  void pack(bool back) {
    each_part([&](const Part& part, int o, int has) {
      float *straight = weight_.get() + part.begin * stride() + o,
            *turned = transposed_.get() + o * distance(inputs) + part.begin;
      const int straight_ld = stride(), turned_ld = distance(inputs);
      const bool goes_on = !single_, comes_back = back || single_;
      if (part.output_first) {
        if (comes_back) copy(part.weight, has, part.outputs, has, turned, turned_ld);
        if (goes_on) transpose<V>(part.weight, has, part.outputs, has, straight, straight_ld);
      } else {
        if (goes_on) copy(part.weight, part.outputs, has, part.outputs, straight, straight_ld);
        if (comes_back) transpose<V>(part.weight, part.outputs, has, part.outputs, turned, turned_ld);
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
        if (single_) std::copy_n(weight_gradient_.get() + part.begin, has, part.weight_gradient);
        else if (part.output_first) transpose<V>(from, stride(), has, part.outputs, part.weight_gradient, has);
        else copy(from, stride(), has, part.outputs, part.weight_gradient, part.outputs);
      });
    write_bias_gradients();
  }

  void write_bias_gradients() const {
    int o = 0;
    for (const Part& part : layer_.parts)
      std::copy_n(bias_gradient_.get() + o, part.outputs, part.bias_gradient), o += part.outputs;
  }

  // y = activate(x W + b), of rows
  template <class Activate>
  void forward(const float* x, int rows, float* y, Activate activate) const {
    if (single_) return forward_single(x, rows, y, activate);
    product<V>(
        rows, padded(outputs), inputs, View<float>{x, distance(inputs), 1}, weight_.get(), stride(),
        [&](int, int n) { return load<V>(bias_.get() + n); },
        [&](int m, int n, V sum) { store(y + m * stride() + n, activate(sum)); });
  }

  // as `forward`, of inputs of which few are not zero
  template <class Activate>
  void forward(const Sparse<V>& x, float* y, Activate activate) const {
    x.product(
        padded(outputs), weight_.get(), stride(), [&](int, int n) { return load<V>(bias_.get() + n); },
        [&](int m, int n, V sum) { store(y + m * stride() + n, activate(sum)); });
  }

  // The gradients of parameters are what the first rows with output gradients d contribute; further ones add to it.
  void add_gradients(const float* x, int rows, const float* d, bool first) {
    add_bias_gradients(rows, d, first);
    if (single_) return sum_rows<true>(x, distance(inputs), rows, d, padded(inputs), first, weight_gradient_.get());
    float* gradient = direct_ ? layer_.parts[0].weight_gradient : weight_gradient_.get();
    const int ld = direct_ ? outputs : stride();
    product<V>(
        inputs, padded(outputs), rows, View<float>{x, 1, distance(inputs)}, d, stride(),
        [&](int m, int n) { return first ? V(0) : load<V>(gradient + m * ld + n); },
        [&](int m, int n, V sum) { store(gradient + m * ld + n, sum); });
  }

  // as `add_gradients`, of inputs of which few are not zero
  void add_gradients(Sparse<V>& x, int rows, const float* d, bool first) {
    add_bias_gradients(rows, d, first);
    float* gradient = direct_ ? layer_.parts[0].weight_gradient : weight_gradient_.get();
    const int ld = direct_ ? outputs : stride();
    if (first) std::fill_n(gradient, inputs * ld, 0.0f);
    x.product_of_columns(
        padded(outputs), d, stride(), [&](int m, int n) { return load<V>(gradient + m * ld + n); },
        [&](int m, int n, V sum) { store(gradient + m * ld + n, sum); });
  }

  void add_bias_gradients(int rows, const float* d, bool first) {
    sum_rows<false>(d, stride(), rows, d, padded(outputs), first, bias_gradient_.get());
  }

  // dx = pass(d Wᵀ, x): the gradient of the inputs, through what made them; of those from a whole line on
  template <class Pass>
  void input_gradients(const float* d, int rows, const float* x, float* dx, int from, Pass pass) const {
    const int ld = distance(inputs);
    product<V>(
        rows, padded(inputs) - from, outputs, View<float>{d, stride(), 1}, transposed_.get() + from, ld,
        [](int, int) { return V(0); },
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

  // as `forward`, of one output: sums of every sixteenth product first
  template <class Activate>
  void forward_single(const float* x, int rows, float* y, Activate activate) const {
    constexpr int kSums = kPad / V::width, kAtOnce = 4;  // rows, whose sums do not wait for each other
    const int last = (rows + kAtOnce - 1) / kAtOnce * kAtOnce;
    for (int r = 0; r < last; r += kAtOnce) {
      V sums[kAtOnce][kSums];
      for (auto& row : sums) std::fill_n(row, kSums, V(0));
      for (int i = 0; i < padded(inputs); i += kPad)
        for (int k = 0; k < kSums; ++k) {
          const V weight = load<V>(transposed_.get() + i + k * V::width);
          for (int m = 0; m < kAtOnce; ++m)
            sums[m][k] = fma(load<V>(x + (r + m) * distance(inputs) + i + k * V::width), weight, sums[m][k]);
        }
      for (int m = 0; m < kAtOnce; ++m) {
        float halves[kPad];
        std::memcpy(halves, sums[m], sizeof halves);
        for (int half = kPad / 2; half > 0; half /= 2)
          for (int i = 0; i < half; ++i) halves[i] += halves[i + half];
        store(y + (r + m) * stride(), activate(V(halves[0] + bias_.get()[0])));
      }
    }
  }

  // to = Σ x[r], of rows with so many columns, each times its d[r] if it is weighted; after the first rows it adds to it
  template <bool weighted>
  void sum_rows(const float* x, int ld, int rows, const float* d, int columns, bool first, float* to) const {
    constexpr int kAtOnce = 8;  // registers
    for (int n = 0; n < columns; n += kAtOnce * V::width) {
      V sums[kAtOnce];
      const int count = std::min(kAtOnce, (columns - n) / V::width);
      for (int c = 0; c < count; ++c) sums[c] = first ? V(0) : load<V>(to + n + c * V::width);
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < count; ++c) {
          const V each = load<V>(x + r * ld + n + c * V::width);
          sums[c] = weighted ? fma(V(d[r * stride()]), each, sums[c]) : sums[c] + each;
        }
      for (int c = 0; c < count; ++c) store(to + n + c * V::width, sums[c]);
    }
  }

  static void copy(const float* from, std::ptrdiff_t ld, int rows, int columns, float* to, std::ptrdiff_t to_ld) {
    for (int r = 0; r < rows; ++r) std::copy_n(from + r * ld, columns, to + r * to_ld);
  }

  Layer layer_;

 public:
  const int inputs, outputs;

 private:
  bool direct_;  // gradients of weights can be written where they belong
  bool single_;  // there is one output: only the transposed weights are used, and their gradients lie as they do
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
      norms_.emplace_back();
      if (layer.norm.gain != nullptr) norms_.back().emplace(layer.norm, dense_.back().outputs, rows, stride);
      widest = std::max(widest, stride);
    }
    for (Floats& d : gradients_) d = floats(rows, widest);
  }

  int outputs() const { return dense_.back().outputs; }
  int stride() const { return distance(outputs()); }
  const float* results() const { return activations_.back().get(); }  // [rows, stride]
  float* result_gradients() { return gradients_[0].get(); }           // [rows, stride], for `backward`

  // Takes the weights as they are now; for the way back only if it is asked for.
  void pack(bool back = true) {
    for (auto& layer : dense_) layer.pack(back);
    for (auto& norm : norms_)
      if (norm) norm->normaliser.pack();
  }
  void write_gradients() const {
    for (const auto& layer : dense_) layer.write_gradients();
    for (const auto& norm : norms_)
      if (norm) norm->normaliser.write_gradients();
  }

  // whether inputs of which few are not zero may be given as such, which changes no result
  bool takes_sparse() const { return std::is_same_v<D, Dense<V>> && dense_.size() > 1; }

  // of inputs x [rows, distance(inputs)], or of sparse ones if there are any; returns the results
  const float* forward(const float* x, int rows, const Sparse<V>& sparse = {}) {
    for (std::size_t l = 0; l < dense_.size(); ++l) {
      float* y = activations_[l].get();
      const auto make = [&](auto activate) {
        if constexpr (std::is_same_v<D, Dense<V>>)
          if (l == 0 && sparse) return dense_[l].forward(sparse, y, activate);
        dense_[l].forward(x, rows, y, activate);
      };
      const auto relu = [](V v) { return max(v, V(0)); };
      const auto curved = [](V v) { return tanh(v); };
      if (l + 1 == dense_.size() || norms_[l]) make([](V v) { return v; });
      else if (relu_) make(relu);
      else make(curved);
      if (norms_[l] && relu_) norms_[l]->forward(y, rows, relu);
      else if (norms_[l]) norms_[l]->forward(y, rows, curved);
      x = y;
    }
    return x;
  }

  // Of a block's rows only these, in rising order, are on the way back, as the first.
  void keep(const std::vector<int>& rows) {
    for (std::size_t l = 0; l + 1 < dense_.size(); ++l) {
      const int stride = distance(dense_[l].outputs);
      float *all = activations_[l].get(), *normalised = norms_[l] ? norms_[l]->normalised.get() : nullptr;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] == static_cast<int>(i)) continue;
        for (float* each : {all, normalised})
          if (each != nullptr) std::copy_n(each + rows[i] * stride, stride, each + static_cast<int>(i) * stride);
        if (norms_[l]) norms_[l]->scales[i] = norms_[l]->scales[static_cast<std::size_t>(rows[i])];
      }
    }
  }

  // the gradients of parameters: those of the first block, to which further ones add; inputs as for `forward`
  void backward(const float* x, int rows, bool first, Sparse<V>* sparse = nullptr) {
    through(x, rows, true, first, sparse);
  }

  // as `backward`; returns the gradients of inputs that a ReLU made, [rows, distance(inputs)]
  const float* backward_to_inputs(const float* x, int rows, bool first) {
    float* d = through(x, rows, true, first);
    float* next = d == gradients_[0].get() ? gradients_[1].get() : gradients_[0].get();
    dense_[0].input_gradients(d, rows, x, next, 0, [](V g, V y) { return select(y > V(0), g, V(0)); });
    return next;
  }

  // the gradients of inputs, [rows, distance(inputs)], of which those before column `from` need not be there
  const float* to_inputs(const float* x, int rows, int from) {
    float* d = through(x, rows, false, false);
    float* next = d == gradients_[0].get() ? gradients_[1].get() : gradients_[0].get();
    dense_[0].input_gradients(d, rows, x, next, from / kPad * kPad, [](V g, V) { return g; });
    return next;
  }

 private:
  // returns the gradient of the first layer's outputs
  float* through(const float* x, int rows, bool parameters, bool first, [[maybe_unused]] Sparse<V>* sparse = nullptr) {
    float *d = gradients_[0].get(), *next = gradients_[1].get();
    for (std::size_t l = dense_.size(); l-- > 0; std::swap(d, next)) {
      const float* below = l == 0 ? x : activations_[l - 1].get();
      if (norms_[l]) norms_[l]->backward(d, rows, first);
      if constexpr (std::is_same_v<D, Dense<V>>)
        if (l == 0 && sparse != nullptr && *sparse) {
          dense_[0].add_gradients(*sparse, rows, d, first);
          break;
        }
      if (parameters) dense_[l].add_gradients(below, rows, d, first);
      if (l == 0) break;
      if (relu_) dense_[l].input_gradients(d, rows, below, next, 0, [](V g, V y) { return select(y > V(0), g, V(0)); });
      else dense_[l].input_gradients(d, rows, below, next, 0, [](V g, V y) { return g * fnma(y, y, V(1)); });
    }
    return d;
  }

  // of a layer's outputs, with what the way back needs of a block of rows
  struct RowNormaliser {
    RowNormaliser(const Norm& norm, int outputs, int rows, int distance)
        : normaliser(norm, outputs),
          stride(distance),
          normalised(floats(rows, stride)),
          scales(static_cast<std::size_t>(rows)) {}

    template <class Activate>
    void forward(float* y, int rows, Activate activate) {
      for (int r = 0; r < rows; ++r)
        scales[static_cast<std::size_t>(r)] = normaliser.forward(y + r * stride, 1, [&](int i, V n, V made) {
          store(normalised.get() + r * stride + i, n), store(y + r * stride + i, activate(made));
        });
    }

    // turns gradients of what is made into those of what it is made of
    void backward(float* d, int rows, bool first) {
      if (first) normaliser.begin_gradients();
      for (int r = 0; r < rows; ++r)
        normaliser.backward(
            d + r * stride, 1, scales[static_cast<std::size_t>(r)],
            [&](int i) { return load<V>(normalised.get() + r * stride + i); },
            [&](int i, V slope) { store(d + r * stride + i, slope); });
    }

    Normaliser<V> normaliser;
    int stride;
    Floats normalised;          // [rows, stride]
    std::vector<float> scales;  // [rows]
  };

  bool relu_;
  std::vector<D> dense_;
  std::vector<std::optional<RowNormaliser>> norms_;  // for each layer
  std::vector<Floats> activations_;
  Floats gradients_[2];
};

// the same parameters, whose gradients are laid out as before in other memory
inline Network with_gradients(Network network, const float* before, float* now) {
  const auto move = [&](float*& gradient) { gradient = now + (gradient - before); };
  const auto move_both = [&](Norm& norm) {
    if (norm.gain != nullptr) move(norm.gain_gradient), move(norm.shift_gradient);
  };
  for (Filters& each : network.trunk.convolutions)
    move(each.weight_gradient), move(each.bias_gradient), move_both(each.norm);
  for (Stack& stack : network.stacks)
    for (Layer& layer : stack) {
      for (Part& part : layer.parts) move(part.weight_gradient), move(part.bias_gradient);
      move_both(layer.norm);
    }
  return network;
}

}  // namespace
}  // namespace headrace::learner
