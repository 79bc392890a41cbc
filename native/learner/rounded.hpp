// A layer whose products are of bfloat16.
#pragma once

#include "words.hpp"

namespace headrace::learner {
namespace {

// As `Dense`; narrow layers, and those of several parts, stay in float32.
template <class Unit>
class Rounded : public Dense<Wide> {
  static constexpr int kNarrow = 64;

 public:
  using Numbers = typename Unit::Numbers;
  static constexpr int kRows = 256, kMost = 256;  // sums are of a block
  static constexpr int kGrain = kTall;

  explicit Rounded(const Layer& layer)
      : Dense(layer),
        part_(layer.parts.front()),
        wide_(std::min(inputs, outputs) > kNarrow && layer.parts.size() == 1),
        tall_(part_.output_first ? outputs : inputs),
        across_(part_.output_first ? inputs : outputs),
        pairs_(bf16_matrix(wide_ ? whole(inputs) / 2 : 0, pair_distance(outputs))),
        transposed_(bf16_matrix(wide_ ? whole(outputs) / 2 : 0, pair_distance(inputs))) {}

  // of a wide layer rows of the weights, where they lie
  int cut_rows() const { return wide_ ? tall_ : inputs; }

  void pack(bool back, Range some) {
    if (!wide_) return Dense::pack(back, some);
    if (some.begin == 0) pack_bias();
    const float* weight = part_.weight + static_cast<std::ptrdiff_t>(some.begin) * across_;
    if (back || !part_.output_first) {  // as they lie
      Bf16Matrix& straight = part_.output_first ? transposed_ : pairs_;
      const int ld = pair_distance(across_);
      pair_rows(weight, across_, some.size(), across_, straight.get() + some.begin / 2 * ld, ld);
    }
    if (back || part_.output_first) {
      Bf16Matrix& turned = part_.output_first ? pairs_ : transposed_;
      const int ld = word_distance(across_);
      std::uint32_t* columns = scratch(Scratch::kLeft, whole(some.size()), ld);
      pair_columns(weight, across_, some.size(), across_, columns, ld);
      transpose(columns, ld, whole(some.size()), whole(across_) / 2, turned.get() + some.begin, pair_distance(tall_));
    }
  }

  void write_gradients(Range some) const {
    if (!wide_) return Dense::write_gradients(some);
    if (some.begin == 0) write_bias_gradients();
  }

  template <class Activate>
  void forward(const float* x, int rows, float* y, Activate activate) const {
    if (!wide_) return Dense::forward(x, rows, y, activate);
    const int ld = word_distance(inputs);
    std::uint32_t* left = scratch(Scratch::kLeft, whole(rows), ld);
    pair_columns(x, distance(columns), rows, inputs, left, ld);
    Unit::product(rows, outputs, inputs, {left, ld, 1}, pairs_.get(), pair_distance(outputs),
                  [&](int m, int n, Wide sum) {
                    if (n < padded(outputs)) store(y + m * stride() + n, activate(sum + load<Wide>(bias_.get() + n)));
                  });
  }

  void add_gradients(const float* x, int rows, const float* d, bool is_first, Range some) {
    if (!wide_) return Dense::add_gradients(x, rows, d, is_first, some);
    if (some.begin == 0) add_bias_gradients(rows, d, is_first);
    const float *tall = part_.output_first ? d : x, *across = part_.output_first ? x : d;
    const int ld = pair_distance(some.size()), right_ld = pair_distance(across_);
    std::uint32_t *pairs = scratch(Scratch::kPairs, whole(rows) / 2, ld),
                  *right = scratch(Scratch::kRight, whole(rows) / 2, right_ld);
    const int outputs_ld = stride(), inputs_ld = distance(columns);
    pair_rows(tall + some.begin, part_.output_first ? outputs_ld : inputs_ld, rows, some.size(), pairs, ld);
    pair_rows(across, part_.output_first ? inputs_ld : outputs_ld, rows, across_, right, right_ld);
    float* gradient = part_.weight_gradient + static_cast<std::ptrdiff_t>(some.begin) * across_;
    Unit::product(some.size(), across_, rows, turned(pairs, ld, rows, some.size()), right, right_ld,
                  [&](int m, int n, Wide sum) {
                    if (m >= some.size()) return;
                    float* place = gradient + static_cast<std::ptrdiff_t>(m) * across_ + n;
                    const __mmask16 part = first(across_ - n);
                    _mm512_mask_storeu_ps(place, part,
                                          is_first ? sum.v : _mm512_add_ps(sum.v, _mm512_maskz_loadu_ps(part, place)));
                  });
  }

  template <class Pass>
  void input_gradients(const float* d, int rows, const float* x, float* dx, int from, Pass pass) const {
    if (!wide_) return Dense::input_gradients(d, rows, x, dx, from, pass);
    const int ld = word_distance(outputs), to = distance(inputs);
    std::uint32_t* left = scratch(Scratch::kLeft, whole(rows), ld);
    pair_columns(d, stride(), rows, outputs, left, ld);
    Unit::product(rows, inputs, outputs, {left, ld, 1}, transposed_.get(), pair_distance(inputs),
                  [&](int m, int n, Wide sum) {
                    if (n < padded(inputs)) store(dx + m * to + n, pass(sum, load<Wide>(x + m * to + n)));
                  });
  }

 private:
  enum class Scratch { kLeft, kRight, kPairs };

  // memory of the calling thread
  static std::uint32_t* scratch(Scratch which, int rows, int distance) {
    thread_local std::vector<std::uint32_t> all[3];
    auto& words = all[static_cast<int>(which)];
    const auto n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(distance);
    if (words.size() < n) words.resize(n);
    return words.data();
  }

  // the left matrix [tall, rows] of words of two rows
  static View<std::uint32_t> turned(const std::uint32_t* pairs, int ld, int rows, int tall) {
    if constexpr (Unit::kTransposes) return {pairs, 1, ld};
    const int left_ld = word_distance(rows);
    std::uint32_t* left = scratch(Scratch::kLeft, whole(tall), left_ld);
    transpose(pairs, ld, whole(rows) / 2, whole(tall), left, left_ld);
    return {left, left_ld, 1};
  }

  Part part_;
  bool wide_;
  int tall_, across_;         // rows and columns of the weights in the caller's memory
  Bf16Matrix pairs_,
      transposed_;  // [inputs, outputs] in words of two inputs; [outputs, inputs] in words of two outputs
};

}  // namespace
}  // namespace headrace::learner
