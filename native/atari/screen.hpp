// From the console's colour indices to pixels: palette look-up and the maximum over the last
// two frames, which hides the flicker of sprites drawn on alternate frames.
//
// Each kernel exists once in plain C++ and, on x86-64, again for AVX2 and AVX-512 VBMI; all
// give the same bytes, and the best one that the processor has is chosen when it starts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace headrace::atari {

// The look of a colour index: grey, or one of red, green and blue.
using Table = std::array<std::uint8_t, 256>;

enum class Level { plain, avx2, avx512 };

// Returns the best kernels that this processor has.
Level best_level();

// The parts of a picture that have changed: bit k stands for pixels kStrip * k to kStrip * (k + 1), and bit 63 for all
// further ones as well.
using Changed = std::uint64_t;
constexpr std::size_t kStrip = 5 * 160;
constexpr Changed kAllChanged = ~Changed{0};
constexpr Changed changed_strip(std::size_t first, bool changed) {
  return Changed{changed} << std::min<std::size_t>(first / kStrip, 63);
}

// out[i] = max(table[a[i]], table[b[i]]); returns the parts that it changes.
Changed pool(const std::uint8_t* a, const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n,
             Level level = best_level());

// out[i] = table[a[i]].
inline Changed paint(const std::uint8_t* a, const Table& table, std::uint8_t* out, std::size_t n) {
  return pool(a, a, table, out, n);
}

// out[i] = max(out[i], table[b[i]]).
void pool_onto(const std::uint8_t* b, const Table& table, std::uint8_t* out, std::size_t n);

}  // namespace headrace::atari
