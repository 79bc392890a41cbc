// W numbers in a register, one for each of W simulations, and masks of them. They are doubles, or floats in twice as
// many lanes. Each operation rounds once and in the same way at every width; if two roundings become one, the code says
// `fma`.
//
// Everything here has internal linkage: the file is compiled once for each kind of processor, and a function that
// the linker took from the wrong one would be an illegal instruction elsewhere.
//
// No library is used (Highway, xsimd, std::experimental::simd): their functions are inline across files, they choose
// the processor or the rounding of a missing `fma` themselves, and their installation is longer than these operations.
//
// This is the dialect of native/ for numbers: lanes and the learner use it. It does not fit elsewhere.
// - atari/resize.cpp, screen.cpp and machine/compose.cpp permute and blend bytes; the instructions differ by width.
// - box2d/iterations.cpp has eight floats on every processor, in a function that the compiler clones (box2d/wide.hpp);
//   these types exist only in files that are compiled for a processor that has them.
// - The learner's bfloat16 is read by single instructions, two numbers in each word (learner/words.hpp).
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace headrace::lanes {
namespace {

template <int W, class T = double>
struct Vec;

template <int W, class T = double>
struct Mask;

// ---- one number: for reading, for debugging, and for processors without the others ------------

#define HEADRACE_LANES_ONE(T)                                                                               \
  template <>                                                                                               \
  struct Mask<1, T> {                                                                                       \
    bool m;                                                                                                 \
  };                                                                                                        \
  template <>                                                                                               \
  struct Vec<1, T> {                                                                                        \
    static constexpr int width = 1;                                                                         \
    using Number = T;                                                                                       \
    using M = Mask<1, T>;                                                                                   \
    T v;                                                                                                    \
    Vec() = default;                                                                                        \
    Vec(double x) : v(static_cast<T>(x)) {}                                                                 \
  };                                                                                                        \
  inline Vec<1, T> operator+(Vec<1, T> a, Vec<1, T> b) { return a.v + b.v; }                                \
  inline Vec<1, T> operator-(Vec<1, T> a, Vec<1, T> b) { return a.v - b.v; }                                \
  inline Vec<1, T> operator*(Vec<1, T> a, Vec<1, T> b) { return a.v * b.v; }                                \
  inline Vec<1, T> operator/(Vec<1, T> a, Vec<1, T> b) { return a.v / b.v; }                                \
  inline Vec<1, T> operator-(Vec<1, T> a) { return -a.v; }                                                  \
  inline Vec<1, T> fma(Vec<1, T> a, Vec<1, T> b, Vec<1, T> c) { return std::fma(a.v, b.v, c.v); }           \
  inline Vec<1, T> fnma(Vec<1, T> a, Vec<1, T> b, Vec<1, T> c) { return std::fma(-a.v, b.v, c.v); }         \
  inline Vec<1, T> sqrt(Vec<1, T> a) { return std::sqrt(a.v); }                                             \
  inline Vec<1, T> abs(Vec<1, T> a) { return std::fabs(a.v); }                                              \
  inline Vec<1, T> min(Vec<1, T> a, Vec<1, T> b) { return a.v < b.v ? a.v : b.v; }                          \
  inline Vec<1, T> max(Vec<1, T> a, Vec<1, T> b) { return a.v > b.v ? a.v : b.v; }                          \
  inline Vec<1, T> round(Vec<1, T> a) { return std::nearbyint(a.v); }                                       \
  inline Vec<1, T> floor(Vec<1, T> a) { return std::floor(a.v); }                                           \
  inline Mask<1, T> operator<(Vec<1, T> a, Vec<1, T> b) { return {a.v < b.v}; }                             \
  inline Mask<1, T> operator<=(Vec<1, T> a, Vec<1, T> b) { return {a.v <= b.v}; }                           \
  inline Mask<1, T> operator==(Vec<1, T> a, Vec<1, T> b) { return {a.v == b.v}; }                           \
  inline Mask<1, T> operator&(Mask<1, T> a, Mask<1, T> b) { return {a.m && b.m}; }                          \
  inline Mask<1, T> operator|(Mask<1, T> a, Mask<1, T> b) { return {a.m || b.m}; }                          \
  inline Mask<1, T> operator^(Mask<1, T> a, Mask<1, T> b) { return {a.m != b.m}; }                          \
  inline Mask<1, T> operator~(Mask<1, T> a) { return {!a.m}; }                                              \
  inline Vec<1, T> select(Mask<1, T> m, Vec<1, T> a, Vec<1, T> b) { return m.m ? a : b; }                   \
  inline std::uint32_t bits(Mask<1, T> m) { return m.m; }                                                   \
  inline Mask<1, T> mask_of(std::uint32_t bits, Mask<1, T>) { return {(bits & 1) != 0}; }

HEADRACE_LANES_ONE(double)
HEADRACE_LANES_ONE(float)
#undef HEADRACE_LANES_ONE

// ---- registers: what AVX2 and AVX-512 write alike, but for a prefix and the kind of number ----

#define HEADRACE_LANES_WIDE(W, T, REGISTER, MASK, PREFIX, KIND)                                             \
  template <>                                                                                               \
  struct Mask<W, T> {                                                                                       \
    MASK m;                                                                                                 \
  };                                                                                                        \
  template <>                                                                                               \
  struct Vec<W, T> {                                                                                        \
    static constexpr int width = W;                                                                         \
    using Number = T;                                                                                       \
    using M = Mask<W, T>;                                                                                   \
    REGISTER v;                                                                                             \
    Vec() = default;                                                                                        \
    Vec(REGISTER x) : v(x) {}                                                                               \
    Vec(double x) : v(PREFIX##_set1_##KIND(static_cast<T>(x))) {}                                           \
  };                                                                                                        \
  inline Vec<W, T> operator+(Vec<W, T> a, Vec<W, T> b) { return PREFIX##_add_##KIND(a.v, b.v); }            \
  inline Vec<W, T> operator-(Vec<W, T> a, Vec<W, T> b) { return PREFIX##_sub_##KIND(a.v, b.v); }            \
  inline Vec<W, T> operator*(Vec<W, T> a, Vec<W, T> b) { return PREFIX##_mul_##KIND(a.v, b.v); }            \
  inline Vec<W, T> operator/(Vec<W, T> a, Vec<W, T> b) { return PREFIX##_div_##KIND(a.v, b.v); }            \
  inline Vec<W, T> operator-(Vec<W, T> a) { return PREFIX##_xor_##KIND(a.v, PREFIX##_set1_##KIND(-T(0))); } \
  inline Vec<W, T> fma(Vec<W, T> a, Vec<W, T> b, Vec<W, T> c) { return PREFIX##_fmadd_##KIND(a.v, b.v, c.v); }    \
  inline Vec<W, T> fnma(Vec<W, T> a, Vec<W, T> b, Vec<W, T> c) { return PREFIX##_fnmadd_##KIND(a.v, b.v, c.v); }  \
  inline Vec<W, T> sqrt(Vec<W, T> a) { return PREFIX##_sqrt_##KIND(a.v); }                                  \
  inline Vec<W, T> abs(Vec<W, T> a) { return PREFIX##_andnot_##KIND(PREFIX##_set1_##KIND(-T(0)), a.v); }    \
  inline Vec<W, T> min(Vec<W, T> a, Vec<W, T> b) { return PREFIX##_min_##KIND(a.v, b.v); }                  \
  inline Vec<W, T> max(Vec<W, T> a, Vec<W, T> b) { return PREFIX##_max_##KIND(a.v, b.v); }

#define HEADRACE_LANES_NEAREST _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC
#define HEADRACE_LANES_DOWN _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC

#if defined(__AVX2__) && defined(__FMA__)
#define HEADRACE_LANES_AVX2(W, T, REGISTER, KIND)                                                           \
  HEADRACE_LANES_WIDE(W, T, REGISTER, REGISTER, _mm256, KIND)                                               \
  inline Vec<W, T> round(Vec<W, T> a) { return _mm256_round_##KIND(a.v, HEADRACE_LANES_NEAREST); }          \
  inline Vec<W, T> floor(Vec<W, T> a) { return _mm256_round_##KIND(a.v, HEADRACE_LANES_DOWN); }             \
  inline Mask<W, T> operator<(Vec<W, T> a, Vec<W, T> b) { return {_mm256_cmp_##KIND(a.v, b.v, _CMP_LT_OQ)}; }     \
  inline Mask<W, T> operator<=(Vec<W, T> a, Vec<W, T> b) { return {_mm256_cmp_##KIND(a.v, b.v, _CMP_LE_OQ)}; }    \
  inline Mask<W, T> operator==(Vec<W, T> a, Vec<W, T> b) { return {_mm256_cmp_##KIND(a.v, b.v, _CMP_EQ_OQ)}; }    \
  inline Mask<W, T> operator&(Mask<W, T> a, Mask<W, T> b) { return {_mm256_and_##KIND(a.m, b.m)}; }         \
  inline Mask<W, T> operator|(Mask<W, T> a, Mask<W, T> b) { return {_mm256_or_##KIND(a.m, b.m)}; }          \
  inline Mask<W, T> operator^(Mask<W, T> a, Mask<W, T> b) { return {_mm256_xor_##KIND(a.m, b.m)}; }         \
  inline Mask<W, T> operator~(Mask<W, T> a) {                                                               \
    return {_mm256_xor_##KIND(a.m, _mm256_castsi256_##KIND(_mm256_set1_epi64x(-1)))};                       \
  }                                                                                                         \
  inline Vec<W, T> select(Mask<W, T> m, Vec<W, T> a, Vec<W, T> b) { return _mm256_blendv_##KIND(b.v, a.v, m.m); } \
  inline std::uint32_t bits(Mask<W, T> m) { return static_cast<std::uint32_t>(_mm256_movemask_##KIND(m.m)); }

HEADRACE_LANES_AVX2(4, double, __m256d, pd)
HEADRACE_LANES_AVX2(8, float, __m256, ps)
#undef HEADRACE_LANES_AVX2

inline Mask<4> mask_of(std::uint32_t bits, Mask<4>) {
  const __m256i lane = _mm256_set_epi64x(8, 4, 2, 1), set = _mm256_set1_epi64x(bits);
  return {_mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_and_si256(set, lane), lane))};
}
inline Mask<8, float> mask_of(std::uint32_t bits, Mask<8, float>) {
  const __m256i lane = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1), set = _mm256_set1_epi32(static_cast<int>(bits));
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(set, lane), lane))};
}
#endif

#ifdef __AVX512F__
#define HEADRACE_LANES_AVX512(W, T, REGISTER, MASK, KIND)                                                   \
  HEADRACE_LANES_WIDE(W, T, REGISTER, MASK, _mm512, KIND)                                                   \
  inline Vec<W, T> round(Vec<W, T> a) { return _mm512_roundscale_##KIND(a.v, HEADRACE_LANES_NEAREST); }     \
  inline Vec<W, T> floor(Vec<W, T> a) { return _mm512_roundscale_##KIND(a.v, HEADRACE_LANES_DOWN); }        \
  inline Mask<W, T> operator<(Vec<W, T> a, Vec<W, T> b) { return {_mm512_cmp_##KIND##_mask(a.v, b.v, _CMP_LT_OQ)}; } \
  inline Mask<W, T> operator<=(Vec<W, T> a, Vec<W, T> b) { return {_mm512_cmp_##KIND##_mask(a.v, b.v, _CMP_LE_OQ)}; } \
  inline Mask<W, T> operator==(Vec<W, T> a, Vec<W, T> b) { return {_mm512_cmp_##KIND##_mask(a.v, b.v, _CMP_EQ_OQ)}; } \
  inline Mask<W, T> operator&(Mask<W, T> a, Mask<W, T> b) { return {static_cast<MASK>(a.m & b.m)}; }        \
  inline Mask<W, T> operator|(Mask<W, T> a, Mask<W, T> b) { return {static_cast<MASK>(a.m | b.m)}; }        \
  inline Mask<W, T> operator^(Mask<W, T> a, Mask<W, T> b) { return {static_cast<MASK>(a.m ^ b.m)}; }        \
  inline Mask<W, T> operator~(Mask<W, T> a) { return {static_cast<MASK>(~a.m)}; }                           \
  inline Vec<W, T> select(Mask<W, T> m, Vec<W, T> a, Vec<W, T> b) { return _mm512_mask_blend_##KIND(m.m, b.v, a.v); } \
  inline std::uint32_t bits(Mask<W, T> m) { return m.m; }                                                   \
  inline Mask<W, T> mask_of(std::uint32_t bits, Mask<W, T>) { return {static_cast<MASK>(bits)}; }

HEADRACE_LANES_AVX512(8, double, __m512d, __mmask8, pd)
HEADRACE_LANES_AVX512(16, float, __m512, __mmask16, ps)
#undef HEADRACE_LANES_AVX512
#endif
#undef HEADRACE_LANES_DOWN
#undef HEADRACE_LANES_NEAREST
#undef HEADRACE_LANES_WIDE

// ---- for every width --------------------------------------------------------------------------

template <class V>
constexpr bool is_single = std::is_same_v<typename V::Number, float>;

// A constant for each kind of numbers.
template <class V>
constexpr double by_kind(double for_doubles, double for_floats) {
  return is_single<V> ? for_floats : for_doubles;
}

template <class V>
inline typename V::M operator>(V a, V b) {
  return b < a;
}
template <class V>
inline typename V::M operator>=(V a, V b) {
  return b <= a;
}

template <int W, class T>
inline bool any(Mask<W, T> m) {
  return bits(m) != 0;
}

template <class V>
inline typename V::Number& lane(V& v, int i) {
  return reinterpret_cast<typename V::Number*>(&v)[i];
}
template <class V>
inline typename V::Number lane(const V& v, int i) {
  return reinterpret_cast<const typename V::Number*>(&v)[i];
}

}  // namespace
}  // namespace headrace::lanes
