// What a network's layers get of a block of samples: their numbers, or the features of their pictures.
#pragma once

#include <optional>

#include "convolutions.hpp"
#include "dense.hpp"
#include "sparse.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class Encoder {
 public:
  Encoder(const Network& network, int rows) : count_(network.inputs), inputs_(floats(rows, distance(count_))) {
    if (!network.trunk.convolutions.empty()) trunk_.emplace(network.trunk, rows);
  }

  // Takes the trunk's weights as they are now; for the way back only if it is asked for.
  void pack(bool back = true) {
    if (trunk_) trunk_->pack(back);
  }
  void write_gradients() const {
    if (trunk_) trunk_->write_gradients();
  }

  // Encodes samples, of which the r-th has the number row(r); comes_back: whether `backward` follows. Numbers of which few
  // are not zero are only noted as such if they may be.
  template <class Row>
  void encode(const Observations& observed, int rows, Row row, bool comes_back, bool may_be_sparse = false) {
    if (trunk_) {
      const auto picture = [&](int r) { return observed.picture(row(r)); };
      trunk_->forward(picture, rows, comes_back, inputs_.get(), distance(count_));
      return;
    }
    const auto numbers = [&](int r) { return observed.row(row(r)); };
    if (may_be_sparse && sparse_.take(rows, count_, numbers)) return;
    for (int r = 0; r < rows; ++r) std::copy_n(numbers(r), count_, inputs_.get() + r * distance(count_));
  }

  // what the layers get: [rows, distance(inputs)], and those that are not zero, where there are few
  const float* inputs() const { return inputs_.get(); }
  Sparse<V>& sparse() { return sparse_; }

  // Adds to the gradients of the trunk's parameters what the layers' gradients contribute, of samples as for `encode`,
  // which were encoded last.
  template <class Row>
  void backward(Layers<V, D>& layers, const Observations& observed, int rows, Row row, bool first) {
    if (!trunk_) return layers.backward(inputs(), rows, first, &sparse_);
    if (first) trunk_->begin_gradients();
    trunk_->backward([&](int r) { return observed.picture(row(r)); }, rows,
                     layers.backward_to_inputs(inputs(), rows, first), distance(count_));
  }

 private:
  int count_;
  Floats inputs_;
  Sparse<V> sparse_;
  std::optional<Convolutions<typename D::Numbers>> trunk_;
};

}  // namespace
}  // namespace headrace::learner
