#include "resize.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace::atari {
namespace {

// OpenCV's saturate_cast<uchar>(float): to nearest, halves to even.
std::uint8_t rounded(float x) { return static_cast<std::uint8_t>(std::clamp(std::lrintf(x), 0L, 255L)); }

// ---- 210 × 160 → 84 × 84 ----------------------------------------------------------------------
// Five rows make two: weights 2 2 1 and 1 2 2, in fifths. Forty columns make 21: an output covers 40/21 columns, hence
// up to three columns, weighted in fortieths.

constexpr int kSide = 84, kWidth = 160, kHeight = 210;
constexpr int kIn = 40, kOut = 21;
constexpr int kDenominator = 200;

// Padding behind the last column, so that whole vectors can be loaded anywhere that matters.
constexpr int kPadding = 32;

struct Columns {
  std::array<std::int32_t, kSide + kPadding> first{};                  // leftmost column that an output covers
  std::array<std::uint16_t, kPadding> short_first{};                   // the same, for one vector of 16 bits
  std::array<std::array<std::uint16_t, kSide + kPadding>, 3> weight{};  // the weights of that column and the next two

  constexpr Columns() {
    for (int x = 0; x < kSide; ++x) {
      const int left = x * kIn, right = left + kIn;  // in units of 1/21 column
      first[x] = left / kOut;
      for (int k = 0; k < 3; ++k) {
        const int from = std::max(left, (first[x] + k) * kOut), to = std::min(right, (first[x] + k + 1) * kOut);
        weight[k][x] = static_cast<std::uint16_t>(std::max(0, to - from));
      }
    }
    for (int x = 0; x < kPadding; ++x) short_first[x] = static_cast<std::uint16_t>(first[x]);
  }
};
constexpr Columns kColumns;

// Sums of five rows, column by column, in fifths.
struct Rows {
  alignas(64) std::uint16_t upper[kWidth + kPadding], lower[kWidth + kPadding];
};

// One output row, in 1/200.
struct Sums {
  alignas(64) std::uint16_t at[kSide + kPadding];
};

[[gnu::always_inline]] inline void add_rows(const std::uint8_t* src, Rows& rows) {
  for (int x = 0; x < kWidth; ++x) {
    const std::uint16_t middle = src[2 * kWidth + x];
    rows.upper[x] = static_cast<std::uint16_t>(2 * (src[x] + src[kWidth + x]) + middle);
    rows.lower[x] = static_cast<std::uint16_t>(2 * (src[3 * kWidth + x] + src[4 * kWidth + x]) + middle);
  }
}

[[gnu::always_inline]] inline void add_columns(const std::uint16_t* row, Sums& sums) {
  for (int x = 0; x < kSide; ++x) {
    const std::uint16_t* s = row + kColumns.first[x];
    sums.at[x] = static_cast<std::uint16_t>(s[0] * kColumns.weight[0][x] + s[1] * kColumns.weight[1][x] +
                                            s[2] * kColumns.weight[2][x]);
  }
}

// Divides to the nearest level; returns whether any sum lies half-way between two levels.
[[gnu::always_inline]] inline bool divide(const Sums& sums, std::uint8_t* out) {
  std::uint16_t ties = 0;
  for (int x = 0; x < kSide; ++x) {
    // (sum + 100) / 200: by 8, then by 25 as 5243 / 2**17, exact up to 43,690
    const auto eighth = static_cast<std::uint16_t>((sums.at[x] + kDenominator / 2) >> 3);
    const auto level = static_cast<std::uint16_t>(static_cast<std::uint16_t>(eighth * 5243u >> 16) >> 1);
    ties |= static_cast<std::uint16_t>(level * kDenominator - sums.at[x] == kDenominator / 2);
    out[x] = static_cast<std::uint8_t>(level);
  }
  return ties != 0;
}

// Computes 84 pixels each of two output rows from five source rows; returns bits 0 and 1 for ties in the first and
// second.
using TwoRows = int (*)(const std::uint8_t* src, Rows& rows, std::array<Sums, 2>& sums, std::uint8_t* out);

int two_rows_plain(const std::uint8_t* src, Rows& rows, std::array<Sums, 2>& sums, std::uint8_t* out) {
  add_rows(src, rows);
  add_columns(rows.upper, sums[0]);
  add_columns(rows.lower, sums[1]);
  return divide(sums[0], out) | divide(sums[1], out + kSide) << 1;
}

#if defined(__x86_64__)

#define HEADRACE_AVX2 __attribute__((target("avx2")))

// Computes eight times from[0] * w0 + from[1] * w1: neighbours are 16 bits apart, so that one gather of 32 bits fetches
// two of them.
HEADRACE_AVX2 inline __m256i weighted_pairs(const std::uint16_t* from, int x, __m256i weights) {
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kColumns.first.data() + x));
  return _mm256_madd_epi16(_mm256_i32gather_epi32(reinterpret_cast<const int*>(from), first, 2), weights);
}

HEADRACE_AVX2 void add_columns_avx2(const std::uint16_t* row, Sums& sums) {
  for (int x = 0; x < kSide; x += 8) {
    __m128i w[3];
    for (int k = 0; k < 3; ++k) w[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kColumns.weight[k].data() + x));
    const __m256i pair = _mm256_set_m128i(_mm_unpackhi_epi16(w[0], w[1]), _mm_unpacklo_epi16(w[0], w[1]));
    const __m256i sum =
        _mm256_add_epi32(weighted_pairs(row, x, pair), weighted_pairs(row + 2, x, _mm256_cvtepu16_epi32(w[2])));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(sum, sum), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums.at + x), _mm256_castsi256_si128(packed));
  }
}

HEADRACE_AVX2 int two_rows_avx2(const std::uint8_t* src, Rows& rows, std::array<Sums, 2>& sums, std::uint8_t* out) {
  add_rows(src, rows);
  add_columns_avx2(rows.upper, sums[0]);
  add_columns_avx2(rows.lower, sums[1]);
  return divide(sums[0], out) | divide(sums[1], out + kSide) << 1;
}

#define HEADRACE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,prefer-vector-width=512")))

HEADRACE_AVX512 void add_columns_avx512(const std::uint16_t* row, Sums& sums) {
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i first = _mm512_loadu_si512(kColumns.short_first.data());
  // Each part of 40 columns has the same shape as the first; the last lanes belong to the next part.
  for (int part = 0; part < kWidth / kIn; ++part, row += kIn) {
    const __m512i left = _mm512_loadu_si512(row), right = _mm512_loadu_si512(row + 32);
    __m512i index = first, sum = _mm512_setzero_si512();
    for (int k = 0; k < 3; ++k, index = _mm512_add_epi16(index, one)) {
      const __m512i weight = _mm512_loadu_si512(kColumns.weight[k].data());
      sum = _mm512_add_epi16(sum, _mm512_mullo_epi16(_mm512_permutex2var_epi16(left, index, right), weight));
    }
    _mm512_storeu_si512(sums.at + part * kOut, sum);
  }
}

HEADRACE_AVX512 int two_rows_avx512(const std::uint8_t* src, Rows& rows, std::array<Sums, 2>& sums, std::uint8_t* out) {
  add_rows(src, rows);
  add_columns_avx512(rows.upper, sums[0]);
  add_columns_avx512(rows.lower, sums[1]);
  return divide(sums[0], out) | divide(sums[1], out + kSide) << 1;
}

#endif

TwoRows two_rows_for(Level level) {
#if defined(__x86_64__)
  if (level == Level::avx512) return two_rows_avx512;
  if (level == Level::avx2) return two_rows_avx2;
#endif
  static_cast<void>(level);
  return two_rows_plain;
}

}  // namespace

Resizer::Resizer(int height, int width, int out_height, int out_width, bool area, Level level)
    : height_(height), width_(width), out_height_(out_height), out_width_(out_width), level_(level) {
  const bool shrinks = out_height <= height && out_width <= width;
  if (out_height == height && out_width == width) {
    method_ = Method::copy;
  } else if (area && shrinks && whole(height, out_height) && whole(width, out_width)) {
    method_ = Method::blocks;
  } else {
    const bool usual = height == kHeight && width == kWidth && out_height == kSide && out_width == kSide;
    method_ = area && usual ? Method::atari84 : Method::weighted;
  }
  rows_ = area && shrinks ? area_taps(height, out_height) : linear_taps(height, out_height, area);
  columns_ = area && shrinks ? area_taps(width, out_width) : linear_taps(width, out_width, area);
  row_.resize(out_width);
  sum_.resize(out_width);
}

// As computeResizeAreaTab in OpenCV's resize.cpp.
Resizer::Taps Resizer::area_taps(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  Taps taps(to);
  for (int i = 0; i < to; ++i) {
    const double begin = i * scale, end = begin + scale, cell = std::min(scale, from - begin);
    const int last = std::min(static_cast<int>(std::floor(end)), from - 1);
    const int first = std::min(static_cast<int>(std::ceil(begin)), last);
    if (first - begin > 1e-3) taps[i].push_back({first - 1, static_cast<float>((first - begin) / cell)});
    for (int j = first; j < last; ++j) taps[i].push_back({j, static_cast<float>(1.0 / cell)});
    if (end - last > 1e-3) {
      const double rest = std::min(std::min(end - last, 1.0), cell);
      taps[i].push_back({last, static_cast<float>(rest / cell)});
    }
  }
  return taps;
}

// Pixels are taken between pixel centres; with area, OpenCV keeps the pixels' edges apart when it enlarges.
Resizer::Taps Resizer::linear_taps(int from, int to, bool area) {
  const double scale = static_cast<double>(from) / to;
  Taps taps(to);
  for (int i = 0; i < to; ++i) {
    double at = (i + 0.5) * scale - 0.5;
    int first = static_cast<int>(std::floor(at));
    double share = at - first;
    if (area) {
      first = static_cast<int>(std::floor(i * scale));
      share = (i + 1) - (first + 1) / scale;
      share = share <= 0 ? 0 : share - std::floor(share);
    }
    if (first < 0) first = 0, share = 0;
    if (first >= from - 1) first = from - 1, share = 0;
    taps[i].push_back({first, static_cast<float>(1 - share)});
    if (share > 0) taps[i].push_back({first + 1, static_cast<float>(share)});
  }
  return taps;
}

void Resizer::operator()(const std::uint8_t* src, std::uint8_t* dst, const std::uint8_t* before, Changed changed) {
  if (!before) changed = kAllChanged;
  if (changed != kAllChanged && before != dst)
    std::memcpy(dst, before, static_cast<std::size_t>(out_height_) * out_width_);
  if (changed == 0) return;
  switch (method_) {
    case Method::copy: std::memcpy(dst, src, static_cast<std::size_t>(height_) * width_); break;
    case Method::blocks: blocks(src, dst); break;
    case Method::weighted: weighted(src, dst); break;
    case Method::atari84: atari84(src, dst, changed); break;
  }
}

// Whole pixels only; OpenCV rounds halves up in the 2 × 2 case and to even in the others.
void Resizer::blocks(const std::uint8_t* src, std::uint8_t* dst) const {
  const int tall = height_ / out_height_, wide = width_ / out_width_;
  const float share = 1.0f / static_cast<float>(tall * wide);
  for (int y = 0; y < out_height_; ++y)
    for (int x = 0; x < out_width_; ++x) {
      int sum = 0;
      for (int j = 0; j < tall; ++j)
        for (int i = 0; i < wide; ++i) sum += src[(y * tall + j) * width_ + x * wide + i];
      *dst++ =
          tall == 2 && wide == 2 ? static_cast<std::uint8_t>((sum + 2) >> 2) : rounded(static_cast<float>(sum) * share);
    }
}

void Resizer::weighted(const std::uint8_t* src, std::uint8_t* dst) {
  for (const auto& row : rows_) {
    std::ranges::fill(sum_, 0.0f);
    for (const Tap& tap : row) {
      const std::uint8_t* from = src + static_cast<std::size_t>(tap.from) * width_;
      for (int x = 0; x < out_width_; ++x) {
        float sum = 0;
        for (const Tap& column : columns_[x]) sum += from[column.from] * column.share;
        sum_[x] += tap.share * sum;
      }
    }
    for (float sum : sum_) *dst++ = rounded(sum);
  }
}

// One output pixel in OpenCV's own order of operations.
std::uint8_t Resizer::pixel(const std::uint8_t* src, int y, int x) const {
  float total = 0;
  for (const Tap& tap : rows_[y]) {
    float sum = 0;
    for (const Tap& column : columns_[x]) sum += src[tap.from * width_ + column.from] * column.share;
    total += tap.share * sum;
  }
  return rounded(total);
}

// A strip of five rows becomes two rows; the rows of strips that did not change exist already.
void Resizer::atari84(const std::uint8_t* src, std::uint8_t* dst, Changed changed) const {
  constexpr int strips = kHeight / 5;
  static_assert(kStrip == 5 * kWidth && strips < 64);
  const TwoRows two_rows = two_rows_for(level_);
  Rows rows{};
  std::array<Sums, 2> sums;
  for (Changed left = changed & ((Changed{1} << strips) - 1); left; left &= left - 1) {
    const int y = 2 * std::countr_zero(left);
    const int ties = two_rows(src + y / 2 * 5 * kWidth, rows, sums, dst + y * kSide);
    for (int i = 0; i < 2; ++i) {
      if (!(ties & 1 << i)) continue;
      for (int x = 0; x < kSide; ++x)
        if (sums[i].at[x] % kDenominator == kDenominator / 2) dst[(y + i) * kSide + x] = pixel(src, y + i, x);
    }
  }
}

}  // namespace headrace::atari
