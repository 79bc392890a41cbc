// Writes the view as an image, by vectors of 64 bytes: the body of a function in sight.py, for CPUs. GPUs and debug
// mode use its Python body, which has the same results.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::minigrid {

inline bool on_cpu() {
#if defined(__CUDA_ARCH__)
  return false;
#else
  return true;
#endif
}

template <class State>
inline void show_view(const State& state, int env, wp::array_t<unsigned char> image) {
#if !defined(__CUDA_ARCH__)
  typedef unsigned char Bytes __attribute__((vector_size(64)));
  typedef unsigned long long Word;
  // a bit for each byte that is 0 or 255, and back
#if defined(__clang__)  // as Warp is: with a register of masks, where the processor has them
  typedef bool Bits __attribute__((ext_vector_type(64)));
  typedef unsigned char Flags __attribute__((ext_vector_type(64)));
  const auto to_bits = [](Bytes bytes) {
    return __builtin_bit_cast(Word, __builtin_convertvector((Flags)bytes, Bits));
  };
  const auto to_bytes = [](Word bits) {
    return (Bytes)(-__builtin_convertvector(__builtin_bit_cast(Bits, bits), Flags));
  };
#else
  const auto to_bits = [](Bytes bytes) {
    Word bits = 0;
    for (int i = 0; i < 64; ++i) bits |= (Word)(bytes[i] & 1) << i;
    return bits;
  };
  const auto to_bytes = [](Word bits) {
    Bytes bytes;
    for (int i = 0; i < 64; ++i) bytes[i] = bits >> i & 1 ? 255 : 0;
    return bytes;
  };
#endif
#define EIGHT(of, i) of((i)), of((i) + 1), of((i) + 2), of((i) + 3), of((i) + 4), of((i) + 5), of((i) + 6), of((i) + 7)
#define THIRTY_TWO(of, i) EIGHT(of, i), EIGHT(of, (i) + 8), EIGHT(of, (i) + 16), EIGHT(of, (i) + 24)
#define SIXTY_FOUR(of, i) THIRTY_TWO(of, i), THIRTY_TWO(of, (i) + 32)
#define ACROSS_DIAGONAL(i) ((i) % 8 * 8 + (i) / 8)
  enum { WALL = 0x5C };
  const Word every = 0x01010101010101ull;
  const int direction = wp::index(state.direction, env), width = state.width, height = state.height;
  // the corner of the world's cells that the view covers
  const int left = wp::index(state.x, env) - (0x3630 >> 4 * direction & 15);
  const int top = wp::index(state.y, env) - (0x6303 >> 4 * direction & 15);
  const bool upwards = direction == 1 || direction == 2;
  const unsigned char* cells = &wp::index(state.cells, env, 0);
  const int last = width * height - 8, from = left < 0 ? -left : 0, beyond = width - left < 7 ? width - left : 7;
  const Word inside = (every << 8 * from) & (every >> 8 * (7 - beyond)), shown = inside * 255;
  const Word flip = 0 - (Word)(direction < 2);
  // the view's rows from the farthest on, or its columns where the agent looks along a row of the world
  Word words[8];
  for (int i = 0; i < 8; ++i) {
    const int line = top + (upwards ? 6 - i : i), at = line * width + left;
    const int near = at < 0 ? 0 : at > last ? last : at, shift = at - near;
    Word word;
    __builtin_memcpy(&word, cells + near, 8);
    word = word >> (8 * (shift > 0 ? shift : 0) & 63) << (8 * (shift < 0 ? -shift : 0) & 63);
    const Word mask = (unsigned)line < (unsigned)height ? shown : 0;
    word = (word & mask) | (every * WALL & ~mask);
    words[i] = (__builtin_bswap64(word) >> 8 & flip) | (word & ~flip);
  }
  Bytes seen;  // row by row from the farthest on, eight bytes each
  __builtin_memcpy(&seen, words, 64);
  const Bytes across = (unsigned char)((direction & 1) - 1) + Bytes{};
  seen = (__builtin_shufflevector(seen, seen, SIXTY_FOUR(ACROSS_DIAGONAL, 0)) & across) | (seen & ~across);
  // what the agent carries is where it stands
  seen[6 * 8 + 3] = (unsigned char)wp::index(state.carrying, env);
  if (!state.see_through) {
    // light spreads sideways through what is transparent, and from there to the next row, straight on and diagonally
    const Word clear = to_bits((Bytes)((seen & 0x8C) != 0x0C));
    const unsigned char* spread = &wp::index(state.spread, 0);
    Word visible = 0, lit = 8;
    for (int y = 6; y >= 0; --y) {
      const Word further = spread[(clear >> 8 * y & 127) << 7 | lit];
      visible |= (lit | further) << 8 * y;
      lit = further;
    }
    seen &= to_bytes(visible);
  }
  const Bytes of = seen & 15, none = {};
  const auto filled = seen > 127;
  const Bytes kind = filled ? none + 7 : of > 12 ? none + 4 : of == 12 ? none + 2 : of;
  const Bytes color = (filled ? seen >> 3 : seen >> 4) & 7;
  const Bytes condition = filled ? none : of > 12 ? of - 12 : none;
  // three bytes for each cell, column by column, in vectors that begin at the bytes 0, 64 and 83
  unsigned char* bytes = &wp::index(image, 0, 0, 0);
#define CELL(i) ((i) / 3 % 7 * 8 + (i) / 21)
#define KIND_OR_COLOR(i) ((i) % 3 < 2 ? CELL(i) + (i) % 3 * 64 : -1)
#define OR_CONDITION(i) ((i) % 3 < 2 ? (i) - first : 64 + CELL(i))
#define WRITE(from)                                                                                \
  {                                                                                                \
    constexpr int first = from;                                                                    \
    const Bytes pairs = __builtin_shufflevector(kind, color, SIXTY_FOUR(KIND_OR_COLOR, first));    \
    const Bytes part = __builtin_shufflevector(pairs, condition, SIXTY_FOUR(OR_CONDITION, first)); \
    __builtin_memcpy(bytes + first, &part, 64);                                                    \
  }
  WRITE(0)
  WRITE(64)
  WRITE(83)
#undef WRITE
#undef OR_CONDITION
#undef KIND_OR_COLOR
#undef CELL
#undef ACROSS_DIAGONAL
#undef SIXTY_FOUR
#undef THIRTY_TWO
#undef EIGHT
#endif
}

}  // namespace headrace::minigrid
