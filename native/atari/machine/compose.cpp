#include "compose.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace::atari {
namespace {

using Bits = std::uint32_t;   // 32 pixels

constexpr int kBlock = 32, kMiddle = kPixels / 2;

// pixels of at most one colour other than the background's
struct Layers {
  Bits playfield, player0, player1;
};

// which latch each pair of objects sets
inline std::uint16_t meetings(Bits p0, Bits m0, Bits p1, Bits m1, Bits bl, Bits pf) {
  const Bits pairs[15] = {m0 & p1, m0 & p0, m1 & p0, m1 & p1, p0 & pf, p0 & bl, p1 & pf, p1 & bl,
                          m0 & pf, m0 & bl, m1 & pf, m1 & bl, bl & pf, p0 & p1, m0 & m1};
  std::uint16_t latches = 0;
  for (int i = 0; i < 15; ++i) latches |= static_cast<std::uint16_t>((pairs[i] != 0) << i);
  return latches;
}

// n pixels from `at` on; whatever lies behind them is of no meaning
inline Layers layers(const Objects& objects, int at, int n, std::uint16_t& met) {
  const auto& lines = objects.lines;
  auto bits = [&](Object object) { return static_cast<Bits>(lines[object].from(at)); };
  const Bits p0 = bits(kPlayer0), m0 = bits(kMissile0), p1 = bits(kPlayer1), m1 = bits(kMissile1);
  const Bits bl = bits(kBall), pf = bits(kPlayfield);
  const Bits drawn = n >= kBlock ? ~Bits{0} : (Bits{1} << n) - 1;
  Bits any = pf, two = any & bl;
  any |= bl, two |= any & m1;
  any |= m1, two |= any & p1;
  any |= p1, two |= any & m0;
  any |= m0, two |= any & p0;
  if (two & drawn) met |= meetings(p0 & drawn, m0 & drawn, p1 & drawn, m1 & drawn, bl & drawn, pf & drawn);
  Layers result{pf | bl, p0 | m0, p1 | m1};
  if (objects.priority == Priority::playfield) {
    result.player0 &= ~result.playfield;
    result.player1 &= ~(result.playfield | result.player0);
    return result;
  }
  if (objects.priority == Priority::score) {
    const int left = kMiddle - at;   // so many pixels belong to the left half
    const Bits half = left >= kBlock ? ~Bits{0} : left <= 0 ? 0 : (Bits{1} << left) - 1;
    result.player0 |= pf & half;
    result.player1 |= pf & ~half;
  }
  result.player1 &= ~result.player0;
  result.playfield &= ~(result.player0 | result.player1);
  return result;
}

// eight pixels of a mask as eight bytes of ones or zeros
constexpr auto kBytes = [] {
  std::array<std::uint64_t, 256> words{};
  for (unsigned i = 0; i < 256; ++i)
    for (int bit = 0; bit < 8; ++bit)
      if (i >> bit & 1) words[i] |= std::uint64_t{0xff} << 8 * bit;
  return words;
}();

std::uint16_t compose_plain(const Objects& objects, int first, int n, std::uint8_t* line) {
  std::uint16_t met = 0;
  std::uint64_t colours[4];
  for (int i = 0; i < 4; ++i) colours[i] = objects.colours[i] * 0x0101010101010101u;
  for (; n > 0; first += kBlock, n -= kBlock) {
    const Layers found = layers(objects, first, n, met);
    for (int i = 0; i < kBlock && i < n; i += 8) {
      std::uint64_t pixels = colours[kBackground];
      auto paint = [&](Bits mask, Colour colour) {
        pixels ^= (pixels ^ colours[colour]) & kBytes[mask >> i & 0xff];
      };
      paint(found.playfield, kPlayfieldColour);
      paint(found.player0, kPlayer0Colour);
      paint(found.player1, kPlayer1Colour);
      std::memcpy(line + first + i, &pixels, sizeof pixels);
    }
  }
  return met;
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) inline __m256i bytes_of(Bits mask) {
  const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(mask)), byte);
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}

__attribute__((target("avx2"))) std::uint16_t compose_avx2(const Objects& objects, int first, int n,
                                                           std::uint8_t* line) {
  std::uint16_t met = 0;
  auto colour = [&](Colour which) __attribute__((target("avx2"))) {
    return _mm256_set1_epi8(static_cast<char>(objects.colours[which]));
  };
  const __m256i background = colour(kBackground), playfield = colour(kPlayfieldColour);
  const __m256i player0 = colour(kPlayer0Colour), player1 = colour(kPlayer1Colour);
  for (; n > 0; first += kBlock, n -= kBlock) {
    const Layers found = layers(objects, first, n, met);
    __m256i pixels = _mm256_blendv_epi8(background, playfield, bytes_of(found.playfield));
    if (found.player0 | found.player1) {
      pixels = _mm256_blendv_epi8(pixels, player0, bytes_of(found.player0));
      pixels = _mm256_blendv_epi8(pixels, player1, bytes_of(found.player1));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(line + first), pixels);
  }
  return met;
}

#endif

}  // namespace

Compose plain_compose() { return compose_plain; }

Compose best_compose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) return compose_avx2;
#endif
  return compose_plain;
}

}  // namespace headrace::atari
