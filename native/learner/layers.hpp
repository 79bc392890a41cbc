// A network's layers one after the other, and a block of samples on its way through them and back.
#pragma once

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "dense.hpp"
#include "normaliser.hpp"
#include "sparse.hpp"

namespace headrace::learner {
namespace {

// one stack, with what a block of rows makes in it
template <class V, class D>
class Layers {
 public:
  Layers(const Stack& stack, Activation activation, int rows = D::kRows) : relu_(activation == Activation::kRelu) {
    for (const Layer& layer : stack) {
      dense_.emplace_back(layer), products_ += dense_.back().products();
      norms_.emplace_back();
      if (layer.norm.gain != nullptr) norms_.back().emplace(layer.norm, dense_.back().outputs);
    }
    reserve(rows);
  }

  // Makes room for blocks of so many rows.
  void reserve(int rows) {
    if (rows <= rows_) return;
    rows_ = rows;
    activations_.clear(), gradients_.clear();
    gradients_.push_back(floats(rows, distance(dense_.front().inputs)));
    for (const D& layer : dense_)
      for (auto* each : {&activations_, &gradients_}) each->push_back(floats(rows, distance(layer.outputs)));
    for (auto& norm : norms_)
      if (norm) norm->reserve(rows);
  }

  int outputs() const { return dense_.back().outputs; }
  int stride() const { return distance(outputs()); }
  double products() const { return products_; }  // of a row, forward
  const float* results() const { return activations_.back().get(); }  // [rows, stride]
  float* result_gradients() { return gradients_.back().get(); }       // [rows, stride], for the way back

  // Takes some of a layer's weights as they are now; for the way back only if it is asked for.
  void pack(std::size_t l, Range some, bool back) {
    dense_[l].pack(back, some);
    if (norms_[l] && some.begin == 0) norms_[l]->normaliser.pack();
  }
  void write_gradients(std::size_t l, Range some) const {
    dense_[l].write_gradients(some);
    if (norms_[l] && some.begin == 0) norms_[l]->normaliser.write_gradients();
  }

  // cut(layer, range) for ranges of weights, which are worth a thread if each weight takes so many products
  template <class Cut>
  void each_cut(double products, int threads, Cut cut) {
    for (std::size_t l = 0; l < dense_.size(); ++l) {
      const int all = dense_[l].cut_rows(), most = 2 * threads_for(products * dense_[l].products(), threads);
      const int step = most == 2 ? all : whole_cuts((all + most - 1) / most);
      for (int begin = 0; begin < all; begin += step) cut(l, Range(begin, std::min(begin + step, all)));
    }
  }

  // whether inputs of which few are not zero may be given as such, which changes no result
  bool takes_sparse() const {
    return kTakesSparse && dense_.size() > 1 && dense_.front().columns == dense_.front().inputs;
  }

  // of some rows of inputs x [rows, distance(columns)], or of sparse ones if there are any; returns all results
  const float* forward(const float* x, Range rows, const Sparse<V>& sparse = {}) {
    for (std::size_t l = 0; l < dense_.size(); ++l) {
      const D& layer = dense_[l];
      float* y = at(activations_[l], rows, layer.outputs);
      const auto make = [&](auto activate) {
        if constexpr (kTakesSparse)
          if (l == 0 && sparse) return layer.forward(sparse, y, activate);
        layer.forward(x + rows.begin * distance(layer.columns), rows.size(), y, activate);
      };
      const auto relu = [](V v) { return max(v, V(0)); };
      const auto curved = [](V v) { return tanh(v); };
      if (l + 1 == dense_.size() || norms_[l]) make([](V v) { return v; });
      else if (relu_) make(relu);
      else make(curved);
      if (norms_[l] && relu_) norms_[l]->forward(activations_[l].get(), rows, relu);
      else if (norms_[l]) norms_[l]->forward(activations_[l].get(), rows, curved);
      x = activations_[l].get();
    }
    return x;
  }

  // Of some rows only these, in rising order, are on the way back, as the first of them.
  void keep(const std::vector<int>& kept, Range rows) {
    for (std::size_t l = 0; l + 1 < dense_.size(); ++l) {
      const int stride = distance(dense_[l].outputs);
      float* all = activations_[l].get();
      for (int row = rows.begin; const int from : kept) {
        if (norms_[l]) norms_[l]->keep(from, row);
        if (from != row) std::copy_n(all + from * stride, stride, all + row * stride);
        ++row;
      }
    }
  }

  // the gradients of the sums of all layers, given those of the last, of some rows
  void come_back(Range rows) {
    for (std::size_t l = dense_.size() - 1; l > 0; --l) {
      const float* below = at(activations_[l - 1], rows, dense_[l].inputs);
      if (relu_) to_below(l, rows, below, 0, [](V g, V y) { return select(y > V(0), g, V(0)); });
      else to_below(l, rows, below, 0, [](V g, V y) { return g * fnma(y, y, V(1)); });
      if (norms_[l - 1]) norms_[l - 1]->backward(gradients_[l].get(), rows);
    }
  }

  // The gradients of some of a layer's weights: those of the first rows, to which further ones add; after `come_back` of
  // these. Inputs are as for `forward`.
  void add_gradients(std::size_t l, Range some, const float* x, Range rows, bool first,
                     [[maybe_unused]] const Sparse<V>* sparse = nullptr) {
    D& layer = dense_[l];
    const float* d = at(gradients_[l + 1], rows, layer.outputs);
    if (norms_[l] && some.begin == 0) norms_[l]->add_gradients(rows, first);
    if constexpr (kTakesSparse)
      if (l == 0 && sparse != nullptr && *sparse) return layer.add_gradients(*sparse, rows.size(), d, first, some);
    const float* below = l == 0 ? x : activations_[l - 1].get();
    layer.add_gradients(below + rows.begin * distance(layer.columns), rows.size(), d, first, some);
  }

  // after `come_back`: the gradients of inputs that a ReLU made, [rows, distance(inputs)]
  const float* through_inputs(const float* x, Range rows) {
    to_below(0, rows, x + rows.begin * distance(dense_[0].inputs), 0,
             [](V g, V y) { return select(y > V(0), g, V(0)); });
    return gradients_[0].get();
  }

  // the gradients of inputs, [rows, distance(inputs)], of which those before column `from` need not be there
  const float* to_inputs(const float* x, Range rows, int from) {
    come_back(rows);
    to_below(0, rows, x + rows.begin * distance(dense_[0].inputs), from / kPad * kPad, [](V g, V) { return g; });
    return gradients_[0].get();
  }

 private:
  static constexpr bool kTakesSparse = std::is_same_v<D, Dense<V>>;

  static int whole_cuts(int n) { return (n + 31) / 32 * 32; }
  static float* at(const Floats& block, Range rows, int columns) {
    return block.get() + rows.begin * distance(columns);
  }

  template <class Pass>
  void to_below(std::size_t l, Range rows, const float* below, int from, Pass pass) {
    dense_[l].input_gradients(at(gradients_[l + 1], rows, dense_[l].outputs), rows.size(), below,
                              at(gradients_[l], rows, dense_[l].inputs), from, pass);
  }

  // of a layer's outputs, with what the way back needs of a block of rows
  struct RowNormaliser {
    RowNormaliser(const Norm& norm, int outputs) : normaliser(norm, outputs), stride(distance(outputs)) {}

    void reserve(int rows) {
      normalised = floats(rows, stride), scales.resize(static_cast<std::size_t>(rows));
      found = floats((rows + D::kGrain - 1) / D::kGrain, normaliser.gradient_size());
    }

    template <class Activate>
    void forward(float* y, Range rows, Activate activate) {
      for (int r = rows.begin; r < rows.end; ++r)
        scales[static_cast<std::size_t>(r)] = normaliser.forward(y + r * stride, 1, [&](int i, V n, V made) {
          store(normalised.get() + r * stride + i, n), store(y + r * stride + i, activate(made));
        });
    }

    void keep(int from, int to) {
      if (from == to) return;
      std::copy_n(normalised.get() + from * stride, stride, normalised.get() + to * stride);
      scales[static_cast<std::size_t>(to)] = scales[static_cast<std::size_t>(from)];
    }

    // turns gradients of what is made into those of what it is made of
    void backward(float* d, Range rows) {
      for (int r = rows.begin; r < rows.end; ++r) {
        float* gradient = found.get() + r / D::kGrain * normaliser.gradient_size();
        if (r % D::kGrain == 0) std::fill_n(gradient, normaliser.gradient_size(), 0.0f);
        normaliser.backward(
            d + r * stride, 1, scales[static_cast<std::size_t>(r)],
            [&](int i) { return load<V>(normalised.get() + r * stride + i); },
            [&](int i, V slope) { store(d + r * stride + i, slope); }, gradient);
      }
    }

    void add_gradients(Range rows, bool first) {
      const int begin = rows.begin / D::kGrain, end = (rows.end + D::kGrain - 1) / D::kGrain;
      normaliser.add_gradients(found.get() + begin * normaliser.gradient_size(), end - begin, first);
    }

    Normaliser<V> normaliser;
    int stride;
    Floats normalised;          // [rows, stride]
    std::vector<float> scales;  // [rows]
    Floats found;               // gradients of gains and shifts by every few rows
  };

  bool relu_;
  double products_ = 0;
  int rows_ = 0;
  std::vector<D> dense_;
  std::vector<std::optional<RowNormaliser>> norms_;  // for each layer
  std::vector<Floats> activations_, gradients_;  // of each layer's outputs; of the inputs, and of each layer's outputs
};

}  // namespace
}  // namespace headrace::learner
