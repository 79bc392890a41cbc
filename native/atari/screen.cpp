#include "screen.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace::atari {
namespace {

bool strip_plain(const std::uint8_t* a, const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n) {
  unsigned different = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint8_t pixel = std::max(table[a[i]], table[b[i]]);
    different |= pixel ^ out[i];
    out[i] = pixel;
  }
  return different != 0;
}

Changed pool_plain(const std::uint8_t* a, const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n) {
  Changed changed = 0;
  for (std::size_t i = 0; i < n; i += kStrip)
    changed |= changed_strip(i, strip_plain(a + i, b + i, table, out + i, std::min(kStrip, n - i)));
  return changed;
}

#if defined(__x86_64__)

// Computes sixteen entries at a time: a shuffle gives zero for every index outside of its sixteen. The chip's colours
// have even numbers, which halves the work.
__attribute__((target("avx2"))) inline __m256i look_up_even(__m256i even, const __m256i* parts) {
  const __m256i bias = _mm256_set1_epi8(0x70);
  const __m256i index = _mm256_and_si256(_mm256_srli_epi16(even, 1), _mm256_set1_epi8(0x7f));
  __m256i found = _mm256_setzero_si256();
  for (int part = 0; part < 8; ++part) {
    const __m256i local = _mm256_xor_si256(index, _mm256_set1_epi8(static_cast<char>(part << 4)));
    found = _mm256_or_si256(found, _mm256_shuffle_epi8(parts[part], _mm256_adds_epu8(local, bias)));
  }
  return found;
}

__attribute__((target("avx2"))) bool strip_avx2(const std::uint8_t* a, const std::uint8_t* b, const Table& table,
                                                const __m256i* parts, std::uint8_t* out, std::size_t n) {
  __m256i different = _mm256_setzero_si256();
  bool changed = false;
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
    const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i));
    auto* to = reinterpret_cast<__m256i*>(out + i);
    // Much of a screen is background: one colour in both frames.
    const __m256i plain = _mm256_broadcastb_epi8(_mm256_castsi256_si128(x));
    const __m256i unlike = _mm256_or_si256(_mm256_xor_si256(x, plain), _mm256_xor_si256(y, plain));
    if (_mm256_testz_si256(unlike, unlike)) {
      const __m256i pixels = _mm256_set1_epi8(static_cast<char>(table[a[i]]));
      different = _mm256_or_si256(different, _mm256_xor_si256(pixels, _mm256_loadu_si256(to)));
      _mm256_storeu_si256(to, pixels);
      continue;
    }
    if (!_mm256_testz_si256(_mm256_or_si256(x, y), _mm256_set1_epi8(1))) {
      changed |= strip_plain(a + i, b + i, table, out + i, 32);
      continue;
    }
    __m256i pixels = look_up_even(x, parts);
    // Most of the screen does not change from one frame to the next.
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) != -1) pixels = _mm256_max_epu8(pixels, look_up_even(y, parts));
    different = _mm256_or_si256(different, _mm256_xor_si256(pixels, _mm256_loadu_si256(to)));
    _mm256_storeu_si256(to, pixels);
  }
  changed |= strip_plain(a + i, b + i, table, out + i, n - i);
  return changed || !_mm256_testz_si256(different, different);
}

__attribute__((target("avx2"))) Changed pool_avx2(const std::uint8_t* a, const std::uint8_t* b, const Table& table,
                                                  std::uint8_t* out, std::size_t n) {
  std::array<std::uint8_t, 128> evens;
  for (std::size_t i = 0; i < evens.size(); ++i) evens[i] = table[2 * i];
  __m256i parts[8];
  for (int part = 0; part < 8; ++part)
    parts[part] =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(evens.data() + 16 * part)));
  Changed changed = 0;
  for (std::size_t i = 0; i < n; i += kStrip)
    changed |= changed_strip(i, strip_avx2(a + i, b + i, table, parts, out + i, std::min(kStrip, n - i)));
  return changed;
}

#define HEADRACE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi")))

HEADRACE_AVX512 inline __m512i look_up_avx512(__m512i index, const __m512i* quarters) {
  const __m512i low = _mm512_permutex2var_epi8(quarters[0], index, quarters[1]);
  const __m512i high = _mm512_permutex2var_epi8(quarters[2], index, quarters[3]);
  return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(index), high);
}

HEADRACE_AVX512 Changed pool_avx512(const std::uint8_t* a, const std::uint8_t* b, const Table& table, std::uint8_t* out,
                                    std::size_t n) {
  __m512i quarters[4];
  for (int q = 0; q < 4; ++q) quarters[q] = _mm512_loadu_si512(table.data() + 64 * q);
  Changed changed = 0;
  for (std::size_t first = 0; first < n; first += kStrip) {
    const std::size_t end = std::min(first + kStrip, n);
    __mmask64 different = 0;
    for (std::size_t i = first; i < end; i += 64) {
      const __mmask64 live = end - i < 64 ? (1ULL << (end - i)) - 1 : ~0ULL;
      const __m512i x = look_up_avx512(_mm512_maskz_loadu_epi8(live, a + i), quarters);
      const __m512i y = look_up_avx512(_mm512_maskz_loadu_epi8(live, b + i), quarters);
      const __m512i pixels = _mm512_max_epu8(x, y);
      different |= _mm512_mask_cmpneq_epu8_mask(live, pixels, _mm512_maskz_loadu_epi8(live, out + i));
      _mm512_mask_storeu_epi8(out + i, live, pixels);
    }
    changed |= changed_strip(first, different != 0);
  }
  return changed;
}

#endif

Level detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw")) return Level::avx512;
  if (__builtin_cpu_supports("avx2")) return Level::avx2;
#endif
  return Level::plain;
}

}  // namespace

Level best_level() {
  static const Level level = detect();
  return level;
}

Changed pool(const std::uint8_t* a, const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n,
             Level level) {
#if defined(__x86_64__)
  if (level == Level::avx512) return pool_avx512(a, b, table, out, n);
  if (level == Level::avx2) return pool_avx2(a, b, table, out, n);
#endif
  return pool_plain(a, b, table, out, n);
}

void pool_onto(const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::max(out[i], table[b[i]]);
}

}  // namespace headrace::atari
