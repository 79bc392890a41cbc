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

// words of two numbers, for convolutions: of two channels of a pixel, or of two samples
struct Halves {
  using Sum = Wide;
  using Factor = Pairs;
  using Word = std::uint32_t;
  static constexpr int kInWord = 2;
  static constexpr int kSamples = 2;

  static void put(Word* words, std::ptrdiff_t n, Wide numbers) {
    const __m256bh rounded = _mm512_cvtneps_pbh(numbers.v);
    std::memcpy(halves(words) + n, &rounded, sizeof rounded);
  }
  static Wide get(const Word* words, std::ptrdiff_t n) {
    __m256i found;
    std::memcpy(&found, reinterpret_cast<const std::uint16_t*>(words) + n, sizeof found);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(found), 16));
  }
  static void set(Word* words, std::ptrdiff_t n, float number) {
    const __m128bh rounded = _mm_cvtneps_pbh(_mm_set_ss(number));
    std::memcpy(halves(words) + n, &rounded, sizeof(std::uint16_t));
  }
  static Word ones() { return 0x3f803f80; }

  // words of the numbers at the same place of two samples, of which each has so many words
  static const Word* zip(const Word* first, const Word* second, std::ptrdiff_t count, Word* to) {
    alignas(64) std::uint16_t places[2][32];
    for (int i = 0; i < 32; ++i)
      for (int half = 0; half < 2; ++half)
        places[half][i] = static_cast<std::uint16_t>(i / 2 + half * kTile + i % 2 * 32);
    const __m512i lower = _mm512_load_si512(places[0]), upper = _mm512_load_si512(places[1]);
    for (std::ptrdiff_t i = 0; i < count; i += kTile) {
      const __mmask16 some = learner::first(static_cast<int>(std::min<std::ptrdiff_t>(count - i, kTile)));
      const __m512i a = _mm512_maskz_loadu_epi32(some, first + i), b = _mm512_maskz_loadu_epi32(some, second + i);
      _mm512_storeu_si512(to + 2 * i, _mm512_permutex2var_epi16(a, lower, b));
      _mm512_storeu_si512(to + 2 * i + kTile, _mm512_permutex2var_epi16(a, upper, b));
    }
    return to;
  }

 private:
  static std::uint16_t* halves(Word* words) { return reinterpret_cast<std::uint16_t*>(words); }
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
