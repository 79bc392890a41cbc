// From the console's colour indices to pixels: palette look-up and the maximum over the last
// two frames, which hides the flicker of sprites drawn on alternate frames.
//
// Each kernel exists once in plain C++ and, on x86-64, again for AVX2 and AVX-512 VBMI; all
// give the same bytes, and the best one that the processor has is chosen when it starts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headrace::atari {

// what a colour index looks like: grey, or one of red, green and blue
using Table = std::array<std::uint8_t, 256>;

enum class Level { plain, avx2, avx512 };

// the best that this processor has
Level best_level();

// out[i] = max(table[a[i]], table[b[i]])
void pool(const std::uint8_t* a, const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n,
          Level level = best_level());

// out[i] = table[a[i]]
inline void paint(const std::uint8_t* a, const Table& table, std::uint8_t* out, std::size_t n) {
  pool(a, a, table, out, n);
}

// out[i] = max(out[i], table[b[i]])
void pool_onto(const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n);

}  // namespace headrace::atari
