// Pictures of bytes as numbers of products: pixel by pixel, with channels next to each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "learner.hpp"
#include "numbers.hpp"

namespace headrace::learner {
namespace {

template <class V>
inline V bytes(const std::uint8_t* p);
template <>
inline Vec<1, float> bytes<Vec<1, float>>(const std::uint8_t* p) {
  return *p;
}
#ifdef __AVX2__
template <>
inline Vec<8, float> bytes<Vec<8, float>>(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
#endif
#ifdef __AVX512F__
template <>
inline Vec<16, float> bytes<Vec<16, float>>(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
#endif

// [channels, height, width] → [height, width, depth], where channels beyond a picture's are 0
template <class N>
class Pictures {
  using V = typename N::Sum;
  using Word = typename N::Word;
  static constexpr int kQuad = 4;  // channels that are interleaved in registers

 public:
  Pictures(const Trunk& trunk)
      : mean_(trunk.mean), scale_(trunk.scale), channels_(trunk.convolutions.front().channels),
        pixels_(trunk.convolutions.front().height * trunk.convolutions.front().width) {}

  // whole words
  static constexpr int depth_of(int channels) { return (channels + N::kInWord - 1) / N::kInWord * N::kInWord; }

  void read(const std::uint8_t* picture, Word* to) const {
    const int depth = depth_of(channels_);
    for (int first = 0; first < channels_; first += kQuad) {
      for (int p = 0; p + V::width <= pixels_; p += V::width) read_some(picture, first, p, depth, to);
      if (pixels_ % V::width != 0) read_some(picture, first, pixels_ - V::width, depth, to);  // some of them again
    }
  }

 private:
  // a register of pixels of up to four channels
  void read_some(const std::uint8_t* picture, int first, int p, int depth, Word* to) const {
    V planes[kQuad];
    for (int c = 0; c < kQuad; ++c)
      planes[c] = first + c < channels_ ? standardised(picture, (first + c) * pixels_ + p) : V(0);
    V quads[kQuad];
    const auto [even, even_rest] = zip(planes[0], planes[2]);
    const auto [odd, odd_rest] = zip(planes[1], planes[3]);
    if constexpr (V::width == 1) std::copy_n(planes, kQuad, quads);
    else {
      std::tie(quads[0], quads[1]) = zip(even, odd);
      std::tie(quads[2], quads[3]) = zip(even_rest, odd_rest);
    }
    if (depth == kQuad) {
      for (int q = 0; q < kQuad; ++q) N::put(to, p * kQuad + q * V::width, quads[q]);
      return;
    }
    alignas(64) Word quad[kQuad * V::width / N::kInWord];
    for (int q = 0; q < kQuad; ++q) N::put(quad, q * V::width, quads[q]);
    constexpr int kWords = kQuad / N::kInWord;
    Word* words = to + (static_cast<std::ptrdiff_t>(p) * depth + first) / N::kInWord;
    const int step = depth / N::kInWord, count = std::min(kWords, step - first / N::kInWord);
    for (int i = 0; i < V::width; ++i, words += step) {
      if (count == kWords) std::memcpy(words, quad + i * kWords, sizeof(Word) * kWords);
      else
        for (int w = 0; w < count; ++w) words[w] = quad[i * kWords + w];
    }
  }

  V standardised(const std::uint8_t* picture, int place) const {
    const V x = bytes<V>(picture + place);
    return mean_ == nullptr ? x : (x - load<V>(mean_ + place)) * load<V>(scale_ + place);
  }

  const float *mean_, *scale_;
  int channels_, pixels_;
};

}  // namespace
}  // namespace headrace::learner
