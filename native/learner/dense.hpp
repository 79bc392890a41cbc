// A layer with weights packed for products, and a block of samples on its way through it and back.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "learner.hpp"
#include "numbers.hpp"
#include "pieces.hpp"
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
  static constexpr int kRows = 64;   // samples of a block on one thread
  static constexpr int kMost = 1024;  // and on several: sums are the same for blocks of all sizes
  static constexpr int kGrain = 8;   // samples of a block, or inputs, are cut into multiples of so many

  explicit Dense(const Layer& layer)
      : layer_(layer),
        inputs(layer.inputs),
        outputs(count(layer)),
        columns(layer.columns == 0 ? inputs : layer.columns),
        direct_(layer.parts.size() == 1 && !layer.parts[0].output_first && outputs % kPad == 0 && inputs % kPad == 0),
        single_(outputs == 1),
        weight_(floats(padded(inputs), stride())),
        bias_(floats(1, padded(outputs))),
        transposed_(floats(outputs, distance(inputs))),
        weight_gradient_(floats(direct_ ? 0 : padded(inputs), stride())),
        bias_gradient_(floats(1, padded(outputs))) {}

  // weights, and their gradients, are cut between inputs
  int cut_rows() const { return inputs; }
  double products() const { return static_cast<double>(inputs) * outputs; }

  // Takes the weights of some inputs as they are now; for the way back only if it is asked for.
  void pack(bool back, Range some) {
    each_part(some, [&](const Part& part, int o, Range of) {
      const int has = inputs_of(part), ld = part.output_first ? has : part.outputs, first = of.begin - part.begin;
      const float* weight = part.weight + static_cast<std::ptrdiff_t>(first) * (part.output_first ? 1 : ld);
      float *straight = weight_.get() + of.begin * stride() + o,
            *turned = transposed_.get() + o * distance(inputs) + of.begin;
      const int straight_ld = stride(), turned_ld = distance(inputs);
      const bool goes_on = !single_, comes_back = back || single_;
      if (part.output_first) {
        if (comes_back) copy(weight, ld, part.outputs, of.size(), turned, turned_ld);
        if (goes_on) transpose<V>(weight, ld, part.outputs, of.size(), straight, straight_ld);
      } else {
        if (goes_on) copy(weight, ld, of.size(), part.outputs, straight, straight_ld);
        if (comes_back) transpose<V>(weight, ld, of.size(), part.outputs, turned, turned_ld);
      }
    });
    if (some.begin == 0) pack_bias();
  }

  void pack_bias() {
    int o = 0;
    for (const Part& part : layer_.parts) std::copy_n(part.bias, part.outputs, bias_.get() + o), o += part.outputs;
  }

  // of some inputs
  void write_gradients(Range some) const {
    if (!direct_)
      each_part(some, [&](const Part& part, int o, Range of) {
        const int has = inputs_of(part), ld = part.output_first ? has : part.outputs, first = of.begin - part.begin;
        const float* from = weight_gradient_.get() + of.begin * stride() + o;
        float* to = part.weight_gradient + static_cast<std::ptrdiff_t>(first) * (part.output_first ? 1 : ld);
        if (single_) std::copy_n(weight_gradient_.get() + of.begin, of.size(), to);
        else if (part.output_first) transpose<V>(from, stride(), of.size(), part.outputs, to, ld);
        else copy(from, stride(), of.size(), part.outputs, to, ld);
      });
    if (some.begin == 0) write_bias_gradients();
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
        rows, padded(outputs), inputs, View<float>{x, distance(columns), 1}, weight_.get(), stride(),
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

  // The gradients of the weights of some inputs, and of the biases with the first, are what the first rows with output
  // gradients d contribute; further ones add to it.
  void add_gradients(const float* x, int rows, const float* d, bool first, Range some) {
    if (some.begin == 0) add_bias_gradients(rows, d, first);
    if (single_) return sum_rows<true>(x, distance(columns), rows, d, some, first, weight_gradient_.get());
    float* gradient = gradients() + some.begin * gradients_stride();
    const int ld = gradients_stride();
    product<V>(
        some.size(), padded(outputs), rows, View<float>{x + some.begin, 1, distance(columns)}, d, stride(),
        [&](int m, int n) { return first ? V(0) : load<V>(gradient + m * ld + n); },
        [&](int m, int n, V sum) { store(gradient + m * ld + n, sum); });
  }

  // as `add_gradients`, of inputs of which few are not zero
  void add_gradients(const Sparse<V>& x, int rows, const float* d, bool first, Range some) {
    if (some.begin == 0) add_bias_gradients(rows, d, first);
    float* gradient = gradients();
    const int ld = gradients_stride();
    if (first) std::fill_n(gradient + some.begin * ld, some.size() * ld, 0.0f);
    x.product_of_columns(
        some, padded(outputs), d, stride(), [&](int m, int n) { return load<V>(gradient + m * ld + n); },
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

  float* gradients() const { return direct_ ? layer_.parts[0].weight_gradient : weight_gradient_.get(); }
  int gradients_stride() const { return direct_ ? outputs : stride(); }
  int inputs_of(const Part& part) const { return part.inputs == 0 ? inputs : part.inputs; }

  // visit(part, the first of its outputs, those of its inputs that are among some)
  template <class Visit>
  void each_part(Range some, Visit visit) const {
    int o = 0;
    for (const Part& part : layer_.parts) {
      const Range of{std::max(some.begin, part.begin), std::min(some.end, part.begin + inputs_of(part))};
      if (of.size() > 0) visit(part, o, of);
      o += part.outputs;
    }
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
            sums[m][k] = fma(load<V>(x + (r + m) * distance(columns) + i + k * V::width), weight, sums[m][k]);
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

  // to = Σ x[r], of some columns of rows, each times its d[r] if it is weighted; after the first rows it adds to it
  template <bool weighted>
  void sum_rows(const float* x, int ld, int rows, const float* d, Range some, bool first, float* to) const {
    constexpr int kAtOnce = 8;  // registers
    for (int n = some.begin; n < some.end; n += kAtOnce * V::width) {
      V sums[kAtOnce];
      const int count = std::min(kAtOnce, (padded(some.end) - n) / V::width);
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
  const int columns;  // of rows of inputs, which are the first of these

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

}  // namespace
}  // namespace headrace::learner
