#include "pattern.hpp"

#include <bit>

namespace headrace::lanes {

void Pattern::complete() {
  for (int k = size - 1; k >= 0; --k) {
    const std::uint64_t below = columns[k] & ((std::uint64_t{1} << k) - 1);
    for (std::uint64_t rest = below; rest; rest &= rest - 1) {
      const int i = std::countr_zero(rest);
      columns[i] |= below & ((std::uint64_t{2} << i) - 1);
    }
  }
  for (int i = 0; i < size; ++i) {
    count[i] = 0;
    for (std::uint64_t rest = columns[i]; rest;) {
      const int begin = std::countr_zero(rest), length = std::countr_one(rest >> begin);
      runs[i][count[i]++] = {static_cast<std::uint8_t>(begin), static_cast<std::uint8_t>(begin + length)};
      if (begin + length == kMost) break;
      rest &= ~std::uint64_t{0} << (begin + length);
    }
  }
}

}  // namespace headrace::lanes
