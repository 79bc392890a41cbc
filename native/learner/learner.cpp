#include "learner.hpp"

#include <stdexcept>
#include <utility>

namespace headrace::learner {

// each is compiled for the processors that have such registers
Learner* make_1(Network network);
Learner* make_8(Network network);
Learner* make_16(Network network);

namespace {

using Make = Learner* (*)(Network);

std::vector<std::pair<int, Make>> cores() {
  std::vector<std::pair<int, Make>> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.emplace_back(16, make_16);
  if (fma) found.emplace_back(8, make_8);
  if (!fma) return found;
#endif
  found.emplace_back(1, make_1);
  return found;
}

}  // namespace

Learner::~Learner() = default;

std::vector<int> widths() {
  std::vector<int> found;
  for (const auto& [width, make] : cores()) found.push_back(width);
  return found;
}

std::unique_ptr<Learner> make_learner(Network network, int width) {
  for (const auto& [each, make] : cores())
    if (width == 0 || width == each) return std::unique_ptr<Learner>(make(std::move(network)));
  throw std::invalid_argument("this processor has no registers of that width");
}

}  // namespace headrace::learner
