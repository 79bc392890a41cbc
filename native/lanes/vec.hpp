// W doubles in a register, and masks of them: the numbers of W simulations. Each operation rounds once and in the
// same way at every width; where two roundings become one, the code says `fma`.
//
// Everything here has internal linkage: the file is compiled once for each kind of processor, and a function that
// the linker took from the wrong one would be an illegal instruction elsewhere.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace headrace::lanes {
namespace {

template <int W>
struct Vec;

template <int W>
struct Mask;

// ---- one double: for reading, for debugging, and for processors without the others ------------

template <>
struct Mask<1> {
  bool m;
};

template <>
struct Vec<1> {
  static constexpr int width = 1;
  using M = Mask<1>;
  double v;
  Vec() = default;
  Vec(double x) : v(x) {}
};

inline Vec<1> operator+(Vec<1> a, Vec<1> b) { return a.v + b.v; }
inline Vec<1> operator-(Vec<1> a, Vec<1> b) { return a.v - b.v; }
inline Vec<1> operator*(Vec<1> a, Vec<1> b) { return a.v * b.v; }
inline Vec<1> operator/(Vec<1> a, Vec<1> b) { return a.v / b.v; }
inline Vec<1> operator-(Vec<1> a) { return -a.v; }
inline Vec<1> fma(Vec<1> a, Vec<1> b, Vec<1> c) { return std::fma(a.v, b.v, c.v); }    // a b + c
inline Vec<1> fnma(Vec<1> a, Vec<1> b, Vec<1> c) { return std::fma(-a.v, b.v, c.v); }  // c - a b
inline Vec<1> sqrt(Vec<1> a) { return std::sqrt(a.v); }
inline Vec<1> abs(Vec<1> a) { return std::fabs(a.v); }
inline Vec<1> min(Vec<1> a, Vec<1> b) { return a.v < b.v ? a.v : b.v; }
inline Vec<1> max(Vec<1> a, Vec<1> b) { return a.v > b.v ? a.v : b.v; }
inline Vec<1> round(Vec<1> a) { return std::nearbyint(a.v); }
inline Vec<1> floor(Vec<1> a) { return std::floor(a.v); }
inline Mask<1> operator<(Vec<1> a, Vec<1> b) { return {a.v < b.v}; }
inline Mask<1> operator<=(Vec<1> a, Vec<1> b) { return {a.v <= b.v}; }
inline Mask<1> operator==(Vec<1> a, Vec<1> b) { return {a.v == b.v}; }
inline Mask<1> operator&(Mask<1> a, Mask<1> b) { return {a.m && b.m}; }
inline Mask<1> operator|(Mask<1> a, Mask<1> b) { return {a.m || b.m}; }
inline Mask<1> operator^(Mask<1> a, Mask<1> b) { return {a.m != b.m}; }
inline Mask<1> operator~(Mask<1> a) { return {!a.m}; }
inline Vec<1> select(Mask<1> m, Vec<1> a, Vec<1> b) { return m.m ? a : b; }
inline std::uint32_t bits(Mask<1> m) { return m.m; }
inline Mask<1> mask_of(std::uint32_t bits, Mask<1>) { return {(bits & 1) != 0}; }

// ---- four doubles: AVX2 -----------------------------------------------------------------------

#if defined(__AVX2__) && defined(__FMA__)
template <>
struct Mask<4> {
  __m256d m;
};

template <>
struct Vec<4> {
  static constexpr int width = 4;
  using M = Mask<4>;
  __m256d v;
  Vec() = default;
  Vec(__m256d x) : v(x) {}
  Vec(double x) : v(_mm256_set1_pd(x)) {}
};

inline Vec<4> operator+(Vec<4> a, Vec<4> b) { return _mm256_add_pd(a.v, b.v); }
inline Vec<4> operator-(Vec<4> a, Vec<4> b) { return _mm256_sub_pd(a.v, b.v); }
inline Vec<4> operator*(Vec<4> a, Vec<4> b) { return _mm256_mul_pd(a.v, b.v); }
inline Vec<4> operator/(Vec<4> a, Vec<4> b) { return _mm256_div_pd(a.v, b.v); }
inline Vec<4> operator-(Vec<4> a) { return _mm256_xor_pd(a.v, _mm256_set1_pd(-0.0)); }
inline Vec<4> fma(Vec<4> a, Vec<4> b, Vec<4> c) { return _mm256_fmadd_pd(a.v, b.v, c.v); }
inline Vec<4> fnma(Vec<4> a, Vec<4> b, Vec<4> c) { return _mm256_fnmadd_pd(a.v, b.v, c.v); }
inline Vec<4> sqrt(Vec<4> a) { return _mm256_sqrt_pd(a.v); }
inline Vec<4> abs(Vec<4> a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v); }
inline Vec<4> min(Vec<4> a, Vec<4> b) { return _mm256_min_pd(a.v, b.v); }
inline Vec<4> max(Vec<4> a, Vec<4> b) { return _mm256_max_pd(a.v, b.v); }
inline Vec<4> round(Vec<4> a) { return _mm256_round_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec<4> floor(Vec<4> a) { return _mm256_round_pd(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
inline Mask<4> operator<(Vec<4> a, Vec<4> b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask<4> operator<=(Vec<4> a, Vec<4> b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_LE_OQ)}; }
inline Mask<4> operator==(Vec<4> a, Vec<4> b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask<4> operator&(Mask<4> a, Mask<4> b) { return {_mm256_and_pd(a.m, b.m)}; }
inline Mask<4> operator|(Mask<4> a, Mask<4> b) { return {_mm256_or_pd(a.m, b.m)}; }
inline Mask<4> operator^(Mask<4> a, Mask<4> b) { return {_mm256_xor_pd(a.m, b.m)}; }
inline Mask<4> operator~(Mask<4> a) { return {_mm256_xor_pd(a.m, _mm256_castsi256_pd(_mm256_set1_epi64x(-1)))}; }
inline Vec<4> select(Mask<4> m, Vec<4> a, Vec<4> b) { return _mm256_blendv_pd(b.v, a.v, m.m); }
inline std::uint32_t bits(Mask<4> m) { return static_cast<std::uint32_t>(_mm256_movemask_pd(m.m)); }
inline Mask<4> mask_of(std::uint32_t bits, Mask<4>) {
  const __m256i lane = _mm256_set_epi64x(8, 4, 2, 1), set = _mm256_set1_epi64x(bits);
  return {_mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_and_si256(set, lane), lane))};
}
#endif

// ---- eight doubles: AVX-512 -------------------------------------------------------------------

#ifdef __AVX512F__
template <>
struct Mask<8> {
  __mmask8 m;
};

template <>
struct Vec<8> {
  static constexpr int width = 8;
  using M = Mask<8>;
  __m512d v;
  Vec() = default;
  Vec(__m512d x) : v(x) {}
  Vec(double x) : v(_mm512_set1_pd(x)) {}
};

inline Vec<8> operator+(Vec<8> a, Vec<8> b) { return _mm512_add_pd(a.v, b.v); }
inline Vec<8> operator-(Vec<8> a, Vec<8> b) { return _mm512_sub_pd(a.v, b.v); }
inline Vec<8> operator*(Vec<8> a, Vec<8> b) { return _mm512_mul_pd(a.v, b.v); }
inline Vec<8> operator/(Vec<8> a, Vec<8> b) { return _mm512_div_pd(a.v, b.v); }
inline Vec<8> operator-(Vec<8> a) {
  return _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(a.v), _mm512_set1_epi64(INT64_MIN)));
}
inline Vec<8> fma(Vec<8> a, Vec<8> b, Vec<8> c) { return _mm512_fmadd_pd(a.v, b.v, c.v); }
inline Vec<8> fnma(Vec<8> a, Vec<8> b, Vec<8> c) { return _mm512_fnmadd_pd(a.v, b.v, c.v); }
inline Vec<8> sqrt(Vec<8> a) { return _mm512_sqrt_pd(a.v); }
inline Vec<8> abs(Vec<8> a) { return _mm512_abs_pd(a.v); }
inline Vec<8> min(Vec<8> a, Vec<8> b) { return _mm512_min_pd(a.v, b.v); }
inline Vec<8> max(Vec<8> a, Vec<8> b) { return _mm512_max_pd(a.v, b.v); }
inline Vec<8> round(Vec<8> a) { return _mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec<8> floor(Vec<8> a) { return _mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
inline Mask<8> operator<(Vec<8> a, Vec<8> b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask<8> operator<=(Vec<8> a, Vec<8> b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LE_OQ)}; }
inline Mask<8> operator==(Vec<8> a, Vec<8> b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask<8> operator&(Mask<8> a, Mask<8> b) { return {static_cast<__mmask8>(a.m & b.m)}; }
inline Mask<8> operator|(Mask<8> a, Mask<8> b) { return {static_cast<__mmask8>(a.m | b.m)}; }
inline Mask<8> operator^(Mask<8> a, Mask<8> b) { return {static_cast<__mmask8>(a.m ^ b.m)}; }
inline Mask<8> operator~(Mask<8> a) { return {static_cast<__mmask8>(~a.m)}; }
inline Vec<8> select(Mask<8> m, Vec<8> a, Vec<8> b) { return _mm512_mask_blend_pd(m.m, b.v, a.v); }
inline std::uint32_t bits(Mask<8> m) { return m.m; }
inline Mask<8> mask_of(std::uint32_t bits, Mask<8>) { return {static_cast<__mmask8>(bits)}; }
#endif

// ---- for every width --------------------------------------------------------------------------

template <class V>
inline typename V::M operator>(V a, V b) { return b < a; }
template <class V>
inline typename V::M operator>=(V a, V b) { return b <= a; }

template <int W>
inline bool any(Mask<W> m) { return bits(m) != 0; }

template <class V>
inline double& lane(V& v, int i) { return reinterpret_cast<double*>(&v)[i]; }
template <class V>
inline double lane(const V& v, int i) { return reinterpret_cast<const double*>(&v)[i]; }

}  // namespace
}  // namespace headrace::lanes
