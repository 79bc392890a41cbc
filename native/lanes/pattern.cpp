#include "pattern.hpp"

#include <bit>

namespace headrace::lanes {
namespace {

constexpr std::uint64_t bit(int i) { return std::uint64_t{1} << i; }

// Returns the last column before the diagonal; -1: none.
int parent(const Pattern& p, int i) { return 63 - std::countl_zero(p.columns[i] & (bit(i) - 1)); }

}  // namespace

void Pattern::complete() {
  elements = chains = 0;
  for (int k = size - 1; k >= 0; --k)
    if (const int above = parent(*this, k); above >= 0) columns[above] |= columns[k] & (bit(k) - 1);
  for (int i = 0; i < size; ++i) {
    const int above = parent(*this, i);
    columns[i] = bit(i) | (above < 0 ? 0 : columns[above]);
    begin[i] = elements, place[i] = static_cast<std::uint8_t>(std::popcount(columns[i]) - 1);
    elements += place[i] + 1;
    if (above < 0 || above != i - 1) chain[chains++].first = static_cast<std::uint8_t>(i);
    chain[chains - 1].last = static_cast<std::uint8_t>(i);
    count[i] = 0;
    for (std::uint64_t rest = columns[i]; rest;) {
      const int first = std::countr_zero(rest), end = first + std::countr_one(rest >> first);
      runs[i][count[i]++] = {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(end)};
      if (end == kMost) break;
      rest &= ~std::uint64_t{0} << end;
    }
  }
}

}  // namespace headrace::lanes
