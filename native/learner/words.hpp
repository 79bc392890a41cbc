// Matrices of bfloat16 in words: two numbers, which are multiplied with two others and added up. The left matrix of a
// product has words of two columns, the right one of two rows.
#pragma once

#include <immintrin.h>

#include "dense.hpp"

namespace headrace::learner {
namespace {

using Bf16Matrix = AlignedBuffer<std::uint32_t>;
using Wide = Vec<16, float>;

constexpr int kTile = 16;          // rows of a tile, and words of a row
constexpr int kTall = 2 * kTile;   // rows and columns of words' matrices are padded to as many numbers

constexpr int whole(int n) { return (n + kTall - 1) / kTall * kTall; }

// words from row to row, of n numbers in pairs: an odd number of cache lines
constexpr int word_distance(int n) { return (whole(n) / kTall | 1) * kTile; }

// words from row to row, of n words: an odd number of cache lines, and whole pairs of tiles
constexpr int pair_distance(int n) { return whole(n) + kTile; }

inline Bf16Matrix bf16_matrix(int rows, int distance) {
  return Bf16Matrix(static_cast<std::size_t>(rows) * static_cast<std::size_t>(distance));
}

inline __mmask16 first(int n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : n > 0 ? (1 << n) - 1 : 0); }

// words of two columns, of [rows, columns]; zeros up to whole tiles
inline void pair_columns(const float* x, std::ptrdiff_t ld, int rows, int columns, std::uint32_t* to,
                         std::ptrdiff_t to_ld) {
  for (int r = 0; r < whole(rows); ++r)
    for (int c = 0; c < columns; c += kTall) {
      const __mmask16 low = first(columns - c), high = first(columns - c - kTile);
      const float* from = x + r * ld + c;
      const __m512 left = r < rows ? _mm512_maskz_loadu_ps(low, from) : _mm512_setzero_ps();
      const __m512 right = r < rows ? _mm512_maskz_loadu_ps(high, from + kTile) : _mm512_setzero_ps();
      const __m512bh rounded = _mm512_cvtne2ps_pbh(right, left);
      std::memcpy(to + r * to_ld + c / 2, &rounded, sizeof rounded);
    }
}

// words of two rows, of [rows, columns]; zeros up to whole tiles
inline void pair_rows(const float* x, std::ptrdiff_t ld, int rows, int columns, std::uint32_t* to,
                      std::ptrdiff_t to_ld) {
  alignas(64) std::uint16_t places[32];
  for (int i = 0; i < 32; ++i) places[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * 16);
  const __m512i zip = _mm512_load_si512(places);
  for (int r = 0; r < whole(rows); r += 2)
    for (int c = 0; c < whole(columns); c += kTile) {
      const __mmask16 some = first(columns - c);
      const float* from = x + r * ld + c;
      const __m512 upper = r < rows ? _mm512_maskz_loadu_ps(some, from) : _mm512_setzero_ps();
      const __m512 lower = r + 1 < rows ? _mm512_maskz_loadu_ps(some, from + ld) : _mm512_setzero_ps();
      const __m512bh rounded = _mm512_cvtne2ps_pbh(lower, upper);
      __m512i both;
      std::memcpy(&both, &rounded, sizeof both);
      _mm512_storeu_si512(to + r / 2 * to_ld + c, _mm512_permutexvar_epi16(zip, both));
    }
}

// words of two numbers, for convolutions: of two channels of a pixel, or of two samples or places
struct Bf16Words {
  using Sum = Wide;
  using Word = std::uint32_t;
  static constexpr int kInWord = 2;

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

// as of floats, of which these words have as many bits
inline void transpose(const std::uint32_t* from, std::ptrdiff_t ld, int rows, int columns, std::uint32_t* to,
                      std::ptrdiff_t to_ld) {
  transpose<Wide>(reinterpret_cast<const float*>(from), ld, rows, columns, reinterpret_cast<float*>(to), to_ld);
}

}  // namespace
}  // namespace headrace::learner
