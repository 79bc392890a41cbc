// Products of bfloat16 in registers (AVX-512 BF16): each number of a sum gets two products in one instruction.
#pragma once

#include "numbers.hpp"
#include "words.hpp"

namespace headrace::learner {
namespace {

// a word for each number of a register
struct Pairs {
  __m512i v;

  Pairs() = default;
  explicit Pairs(std::uint32_t word) : v(_mm512_set1_epi32(static_cast<int>(word))) {}
};

inline Wide fma(Pairs a, Pairs b, Wide sum) {
  return _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v));
}

struct Halves : Bf16Words {
  using Factor = Pairs;
  static constexpr int kSamples = 2, kGroup = 8;
  static constexpr bool kInTiles = false;
  using Shape = Singles<Wide>::Shape;
};

// finish(m, n, Σₖ A[m, k] B[k, n]) for all of [rows, columns], rounded up to whole tiles; inner: numbers that are summed
struct Dots {
  using Numbers = Halves;
  static constexpr bool kTransposes = true;

  template <class Finish>
  static void product(int rows, int columns, int inner, View<std::uint32_t> A, const std::uint32_t* B,
                      std::ptrdiff_t ldb, Finish finish) {
    learner::product<Wide, Pairs>(
        rows, padded(columns), (inner + 1) / 2, A, B, ldb, [](int, int) { return Wide(0); }, finish);
  }
};

}  // namespace
}  // namespace headrace::learner
