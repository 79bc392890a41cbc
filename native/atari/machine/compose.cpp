#include "compose.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace headrace::atari {
namespace {

using Bits = std::uint32_t;   // 32 pixels

constexpr int kBlock = 32;

// Composes all pixels of a line; the compiler chooses vectors as wide as the processor's registers.
using Wide = std::uint64_t __attribute__((vector_size(32)));

// The pixels of the line's left half.
constexpr Wide kLeft = {~std::uint64_t{0}, 0xffff, 0, 0};

// A mask of n pixels.
constexpr Bits first_of(int n) { return n >= kBlock ? ~Bits{0} : (Bits{1} << n) - 1; }

// Returns eight pixels of a mask as eight bytes of ones or zeros.
constexpr auto kBytes = [] {
  std::array<std::uint64_t, 256> words{};
  for (unsigned i = 0; i < 256; ++i)
    for (int bit = 0; bit < 8; ++bit)
      if (i >> bit & 1) words[i] |= std::uint64_t{0xff} << 8 * bit;
  return words;
}();

void compose_plain(const Objects& objects, int first, int n, std::uint8_t* line) {
  std::uint64_t colours[4];
  for (int i = 0; i < 4; ++i) colours[i] = objects.colours[i] * 0x0101010101010101u;
  const Layers& layers = objects.layers;
  for (; n > 0; first += kBlock, n -= kBlock) {
    const std::uint64_t playfield = layers.playfield.from(first);
    const std::uint64_t player0 = layers.player0.from(first), player1 = layers.player1.from(first);
    for (int i = 0; i < kBlock && i < n; i += 8) {
      std::uint64_t pixels = colours[kBackground];
      auto paint = [&](std::uint64_t mask, Colour colour) {
        pixels ^= (pixels ^ colours[colour]) & kBytes[mask >> i & 0xff];
      };
      paint(playfield, kPlayfieldColour);
      paint(player0, kPlayer0Colour);
      paint(player1, kPlayer1Colour);
      std::memcpy(line + first + i, &pixels, sizeof pixels);
    }
  }
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) inline __m256i bytes_of(Bits mask) {
  const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(mask)), byte);
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}

__attribute__((target("avx2"))) void compose_avx2(const Objects& objects, int first, int n, std::uint8_t* line) {
  auto colour = [&](Colour which) __attribute__((target("avx2"))) {
    return _mm256_set1_epi8(static_cast<char>(objects.colours[which]));
  };
  auto store = [line](int at, __m256i pixels) __attribute__((target("avx2"))) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(line + at), pixels);
  };
  const Layers& layers = objects.layers;
  const __m256i background = colour(kBackground), playfield = colour(kPlayfieldColour);
  if (!layers.players) {
    for (const int end = first + n; first < end; first += kBlock)
      store(first,
            _mm256_blendv_epi8(background, playfield, bytes_of(static_cast<Bits>(layers.playfield.from(first)))));
    return;
  }
  const __m256i player0 = colour(kPlayer0Colour), player1 = colour(kPlayer1Colour);
  for (const int end = first + n; first < end; first += kBlock) {
    const auto in0 = static_cast<Bits>(layers.player0.from(first)), in1 = static_cast<Bits>(layers.player1.from(first));
    __m256i pixels =
        _mm256_blendv_epi8(background, playfield, bytes_of(static_cast<Bits>(layers.playfield.from(first))));
    if (in0 | in1) {
      pixels = _mm256_blendv_epi8(pixels, player0, bytes_of(in0));
      pixels = _mm256_blendv_epi8(pixels, player1, bytes_of(in1));
    }
    store(first, pixels);
  }
}

#elif defined(__aarch64__)

// Returns sixteen pixels of a mask as sixteen bytes of ones or zeros.
inline uint8x16_t bytes_of(std::uint64_t mask) {
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  const uint8x8_t low = vdup_n_u8(static_cast<std::uint8_t>(mask)),
                  high = vdup_n_u8(static_cast<std::uint8_t>(mask >> 8));
  return vtstq_u8(vcombine_u8(low, high), bit);
}

void compose_neon(const Objects& objects, int first, int n, std::uint8_t* line) {
  constexpr int block = 16;
  auto colour = [&](Colour which) { return vdupq_n_u8(objects.colours[which]); };
  const Layers& layers = objects.layers;
  for (const int end = first + n; first < end; first += block) {
    uint8x16_t pixels = colour(kBackground);
    pixels = vbslq_u8(bytes_of(layers.playfield.from(first)), colour(kPlayfieldColour), pixels);
    if (layers.players) {
      pixels = vbslq_u8(bytes_of(layers.player0.from(first)), colour(kPlayer0Colour), pixels);
      pixels = vbslq_u8(bytes_of(layers.player1.from(first)), colour(kPlayer1Colour), pixels);
    }
    vst1q_u8(line + first, pixels);
  }
}

#endif

}  // namespace

void Layers::follow(const Lines& lines, Priority priority) {
  auto load = [](const Line& line, Wide& wide) { std::memcpy(&wide, line.words_.data(), sizeof wide); };
  auto store = [](Line& line, const Wide& wide) {
    std::memcpy(line.words_.data(), &wide, sizeof wide);
    return !line.empty();
  };
  Wide p0, m0, p1, m1, ball, field;
  load(lines[kPlayer0], p0), load(lines[kMissile0], m0), load(lines[kPlayer1], p1);
  load(lines[kMissile1], m1), load(lines[kBall], ball), load(lines[kPlayfield], field);
  Wide back = field | ball, front0 = p0 | m0, front1 = p1 | m1;
  const Wide two = (field & ball) | (p0 & m0) | (p1 & m1) | (back & front0) | ((back | front0) & front1);
  meeting = store(shared, two);
  if (priority == Priority::playfield) {
    front0 &= ~back;
    front1 &= ~(back | front0);
  } else {
    if (priority == Priority::score) front0 |= field & kLeft, front1 |= field & ~kLeft;
    front1 &= ~front0;
    back &= ~(front0 | front1);
  }
  const bool any0 = store(player0, front0), any1 = store(player1, front1);
  players = any0 || any1;
  store(playfield, back);
}

std::uint16_t meetings(const Objects& objects, int first, int n) {
  std::uint16_t latches = 0;
  for (; n > 0; first += kBlock, n -= kBlock) {
    const Bits drawn = first_of(n);
    if (!(objects.layers.shared.from(first) & drawn)) continue;
    auto bits = [&](Object object) { return static_cast<Bits>(objects.lines[object].from(first)) & drawn; };
    const Bits p0 = bits(kPlayer0), m0 = bits(kMissile0), p1 = bits(kPlayer1), m1 = bits(kMissile1);
    const Bits bl = bits(kBall), pf = bits(kPlayfield);
    const Bits pairs[15] = {m0 & p1, m0 & p0, m1 & p0, m1 & p1, p0 & pf, p0 & bl, p1 & pf, p1 & bl,
                            m0 & pf, m0 & bl, m1 & pf, m1 & bl, bl & pf, p0 & p1, m0 & m1};
    for (int i = 0; i < 15; ++i) latches |= static_cast<std::uint16_t>((pairs[i] != 0) << i);
  }
  return latches;
}

Compose composer(Vectors vectors) {
#if defined(__x86_64__)
  if (vectors == Vectors::avx2) return compose_avx2;
#elif defined(__aarch64__)
  if (vectors == Vectors::neon) return compose_neon;
#endif
  static_cast<void>(vectors);
  return compose_plain;
}

Vectors best_vectors() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") ? Vectors::avx2 : Vectors::plain;
#elif defined(__aarch64__)
  return Vectors::neon;
#else
  return Vectors::plain;
#endif
}

}  // namespace headrace::atari
