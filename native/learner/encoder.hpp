// What a network's layers get of a block of samples: their numbers, or the features of their pictures.
#pragma once

#include <optional>

#include "convolutions.hpp"
#include "layers.hpp"
#include "sparse.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class Encoder {
 public:
  Encoder(const Network& network, int rows)
      : count_(network.inputs), rows_(rows), inputs_(floats(rows, distance(count_))), sparse_(1), rows_of_(1, 0) {
    if (!network.trunk.convolutions.empty()) trunk_.emplace(network.trunk, rows);
  }

  // Makes room for blocks of so many rows, and for so many threads.
  void reserve(int rows, int threads) {
    if (trunk_) trunk_->reserve(rows, threads);
    if (rows > rows_) rows_ = rows, inputs_ = floats(rows, distance(count_));
  }

  double products() const { return trunk_ ? trunk_->products() : 0; }  // of a row, forward

  // Notes how many pieces a block has, of which each is then encoded.
  void begin(int pieces) { sparse_.resize(static_cast<std::size_t>(pieces)), rows_of_.resize(sparse_.size(), 0); }

  // Encodes samples, of which the r-th has the number row(r); comes_back: whether gradients follow. Numbers of which few
  // are not zero are only noted as such if they may be.
  template <class Row>
  void encode(const Observations& observed, const Piece& piece, Row row, bool comes_back, bool may_be_sparse = false) {
    if (trunk_) {
      const auto picture = [&](int r) { return observed.picture(row(r)); };
      trunk_->forward(picture, piece, comes_back, inputs_.get(), distance(count_));
      return;
    }
    const auto [begin, end] = piece.rows;
    rows_of_[static_cast<std::size_t>(piece.number)] = piece.rows;
    const auto numbers = [&](int r) { return observed.row(row(r)); };
    const auto some = [&, first = begin](int r) { return numbers(first + r); };
    if (may_be_sparse && sparse(piece.number).take(end - begin, count_, some, comes_back)) return;
    for (int r = begin; r < end; ++r) std::copy_n(numbers(r), count_, inputs_.get() + r * distance(count_));
  }

  // what the layers get: [rows, distance(inputs)], and those of a piece that are not zero, where there are few
  const float* inputs() const { return inputs_.get(); }
  Sparse<V>& sparse(int piece = 0) { return sparse_[static_cast<std::size_t>(piece)]; }

  // Finds the gradients of all that layers and the trunk make of a piece, given those of the layers' results; samples are as
  // for `encode`, and were encoded last.
  template <class Row>
  void come_back(Layers<V, D>& layers, const Observations& observed, const Piece& piece, Row row) {
    layers.come_back(piece.rows);
    if (trunk_)
      trunk_->backward([&](int r) { return observed.picture(row(r)); }, piece,
                       layers.through_inputs(inputs(), piece.rows), distance(count_));
  }

  // The gradients of some of a layer's weights are those of the first rows, to which further ones add; after `come_back`.
  void add_gradients(Layers<V, D>& layers, std::size_t layer, Range some, int rows, bool first) {
    const bool any = layer == 0 && std::any_of(sparse_.begin(), sparse_.end(), [](const auto& each) { return !!each; });
    if (!any) return layers.add_gradients(layer, some, inputs(), rows, first);
    for (std::size_t i = 0; i < sparse_.size(); ++i)
      layers.add_gradients(0, some, inputs(), rows_of_[i], first && i == 0, &sparse_[i]);
  }

  // of the trunk, each with its gradients as the layers'
  std::size_t convolutions() const { return trunk_ ? trunk_->layers() : 0; }
  Convolutions<typename D::Numbers>& trunk() { return *trunk_; }

 private:
  int count_, rows_;
  Floats inputs_;
  std::vector<Sparse<V>> sparse_;  // of each piece,
  std::vector<Range> rows_of_;     // and its rows
  std::optional<Convolutions<typename D::Numbers>> trunk_;
};

}  // namespace
}  // namespace headrace::learner
