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
  static constexpr int kRows = 256;

  struct Scratch {
    std::vector<std::uint32_t> left, right, pairs;

    static std::uint32_t* of(std::vector<std::uint32_t>& words, int rows, int distance) {
      const auto n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(distance);
      if (words.size() < n) words.resize(n);
      return words.data();
    }
  };

  Rounded(const Layer& layer, const std::shared_ptr<Scratch>& scratch)
      : Dense(layer, nullptr),
        scratch_(scratch),
        part_(layer.parts.front()),
        wide_(std::min(inputs, outputs) > kNarrow && layer.parts.size() == 1),
        tall_(part_.output_first ? outputs : inputs),
        across_(part_.output_first ? inputs : outputs),
        pairs_(bf16_matrix(wide_ ? whole(inputs) / 2 : 0, pair_distance(outputs))),
        transposed_(bf16_matrix(wide_ ? whole(outputs) / 2 : 0, pair_distance(inputs))) {}

  void pack(bool back) {
    if (!wide_) return Dense::pack(back);
    pack_bias();
    if (back || !part_.output_first) {  // as they lie
      Bf16Matrix& straight = part_.output_first ? transposed_ : pairs_;
      pair_rows(part_.weight, across_, tall_, across_, straight.get(), pair_distance(across_));
    }
    if (back || part_.output_first) {
      Bf16Matrix& turned = part_.output_first ? pairs_ : transposed_;
      std::uint32_t* columns = Scratch::of(scratch_->left, whole(tall_), word_distance(across_));
      pair_columns(part_.weight, across_, tall_, across_, columns, word_distance(across_));
      transpose(columns, word_distance(across_), whole(tall_), whole(across_) / 2, turned.get(), pair_distance(tall_));
    }
  }

  void write_gradients() const { wide_ ? write_bias_gradients() : Dense::write_gradients(); }

  template <class Activate>
  void forward(const float* x, int rows, float* y, Activate activate) const {
    if (!wide_) return Dense::forward(x, rows, y, activate);
    const int ld = word_distance(inputs);
    std::uint32_t* left = Scratch::of(scratch_->left, whole(rows), ld);
    pair_columns(x, distance(inputs), rows, inputs, left, ld);
    Unit::product(rows, outputs, inputs, {left, ld, 1}, pairs_.get(), pair_distance(outputs),
                  [&](int m, int n, Wide sum) {
                    if (n < padded(outputs)) store(y + m * stride() + n, activate(sum + load<Wide>(bias_.get() + n)));
                  });
  }

  void add_gradients(const float* x, int rows, const float* d, bool is_first) {
    if (!wide_) return Dense::add_gradients(x, rows, d, is_first);
    add_bias_gradients(rows, d, is_first);
    const float *tall = part_.output_first ? d : x, *across = part_.output_first ? x : d;
    const int ld = pair_distance(tall_), right_ld = pair_distance(across_);
    std::uint32_t *pairs = Scratch::of(scratch_->pairs, whole(rows) / 2, ld),
                  *right = Scratch::of(scratch_->right, whole(rows) / 2, right_ld);
    pair_rows(tall, distance(tall_), rows, tall_, pairs, ld);
    pair_rows(across, distance(across_), rows, across_, right, right_ld);
    Unit::product(tall_, across_, rows, turned(pairs, ld, rows), right, right_ld, [&](int m, int n, Wide sum) {
      if (m >= tall_) return;
      float* place = part_.weight_gradient + static_cast<std::ptrdiff_t>(m) * across_ + n;
      const __mmask16 some = first(across_ - n);
      _mm512_mask_storeu_ps(place, some, is_first ? sum.v : _mm512_add_ps(sum.v, _mm512_maskz_loadu_ps(some, place)));
    });
  }

  template <class Pass>
  void input_gradients(const float* d, int rows, const float* x, float* dx, int from, Pass pass) const {
    if (!wide_) return Dense::input_gradients(d, rows, x, dx, from, pass);
    const int ld = word_distance(outputs), to = distance(inputs);
    std::uint32_t* left = Scratch::of(scratch_->left, whole(rows), ld);
    pair_columns(d, stride(), rows, outputs, left, ld);
    Unit::product(rows, inputs, outputs, {left, ld, 1}, transposed_.get(), pair_distance(inputs),
                  [&](int m, int n, Wide sum) {
                    if (n < padded(inputs)) store(dx + m * to + n, pass(sum, load<Wide>(x + m * to + n)));
                  });
  }

 private:
  // the left matrix [tall_, rows] of words of two rows
  View<std::uint32_t> turned(const std::uint32_t* pairs, int ld, int rows) const {
    if constexpr (Unit::kTransposes) return {pairs, 1, ld};
    const int left_ld = word_distance(rows);
    std::uint32_t* left = Scratch::of(scratch_->left, whole(tall_), left_ld);
    transpose(pairs, ld, whole(rows) / 2, whole(tall_), left, left_ld);
    return {left, left_ld, 1};
  }

  std::shared_ptr<Scratch> scratch_;
  Part part_;
  bool wide_;
  int tall_, across_;         // rows and columns of the weights in the caller's memory
  Bf16Matrix pairs_,
      transposed_;  // [inputs, outputs] in words of two inputs; [outputs, inputs] in words of two outputs
};

}  // namespace
}  // namespace headrace::learner
