#include "makers.hpp"

#include <stdexcept>
#include <utility>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace headrace::learner {

namespace {

using Make = Makers (*)();

std::vector<std::pair<int, Make>> found() {
  std::vector<std::pair<int, Make>> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.emplace_back(16, makers_16);
  if (fma) found.emplace_back(8, makers_8);
  if (!fma) return found;
#endif
  found.emplace_back(1, makers_1);
  return found;
}

Makers makers_of(Registers registers) {
#if defined(__x86_64__)
  if (registers.bfloat16 && has_bfloat16()) return makers_bfloat16();
#endif
  for (const auto& [width, make] : found())
    if (!registers.bfloat16 && (registers.width == 0 || registers.width == width)) return make();
  throw std::invalid_argument("this processor has no such registers");
}

}  // namespace

bool has_bfloat16() {
#if defined(__linux__) && defined(__x86_64__)
  static const bool has = [] {
    if (widths().empty() || widths().front() != 16 || !__builtin_cpu_supports("avx512bw")) return false;
    unsigned a = 7, b = 0, c = 0, d = 0;  // leaf 7: matrix units and their products of bfloat16; in its second part: conversions
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    const bool tiles = (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;
    a = 7, c = 1;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    constexpr int kRequest = 0x1023, kTiles = 18;  // ARCH_REQ_XCOMP_PERM: a process must ask once
    return tiles && (a >> 5 & 1) != 0 && syscall(SYS_arch_prctl, kRequest, kTiles) == 0;
  }();
  return has;
#else
  return false;
#endif
}

Learner::~Learner() = default;
ActorCriticLearner::~ActorCriticLearner() = default;
QLearner::~QLearner() = default;

void approach(float* target, const float* source, std::int64_t size, float rate) {
  for (std::int64_t i = 0; i < size; ++i) target[i] += rate * (source[i] - target[i]);
}

std::vector<int> widths() {
  std::vector<int> all;
  for (const auto& [width, make] : found()) all.push_back(width);
  return all;
}

std::unique_ptr<Learner> make_learner(Network network, Registers registers) {
  return std::unique_ptr<Learner>(makers_of(registers).learner(std::move(network)));
}

std::unique_ptr<ActorCriticLearner> make_actor_critic_learner(ActorCriticNetworks networks, Registers registers) {
  return std::unique_ptr<ActorCriticLearner>(makers_of(registers).actor_critic(std::move(networks)));
}

std::unique_ptr<QLearner> make_q_learner(QNetworks networks, Registers registers) {
  return std::unique_ptr<QLearner>(makers_of(registers).q(std::move(networks)));
}

}  // namespace headrace::learner
