#include "makers.hpp"

#include <stdexcept>
#include <utility>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace headrace::learner {

namespace {

struct Found {
  int width;
  bool bfloat16;
  Makers (*make)();
};

#if defined(__x86_64__)
// whether the processor converts and multiplies bfloat16 in registers
bool has_dots() {
  unsigned a = 7, b = 0, c = 1, d = 0;  // the second part of leaf 7
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (a >> 5 & 1) != 0 && __builtin_cpu_supports("avx512bw");
}

// whether it has matrix units for them, and the system lets this process use them
bool has_tiles() {
#if defined(HEADRACE_EMULATED_TILES)
  return true;
#elif defined(__linux__)
  unsigned a = 7, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  constexpr int kRequest = 0x1023, kTiles = 18;  // ARCH_REQ_XCOMP_PERM: a process must ask once
  return (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0 && syscall(SYS_arch_prctl, kRequest, kTiles) == 0;
#else
  return false;
#endif
}
#endif

// of each kind the best first
std::vector<Found> find() {
  std::vector<Found> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    if (has_dots() && has_tiles()) found.push_back({kTileWidth, true, makers_bfloat16_tiles});
    if (has_dots()) found.push_back({16, true, makers_bfloat16_dots});
    found.push_back({16, false, makers_16});
  }
  if (fma) found.push_back({8, false, makers_8});
  if (!fma) return found;
#endif
  found.push_back({1, false, makers_1});
  return found;
}

const std::vector<Found>& found() {
  static const std::vector<Found> all = find();
  return all;
}

Makers makers_of(Registers registers) {
  for (const auto& [width, bfloat16, make] : found())
    if (bfloat16 == registers.bfloat16 && (registers.width == 0 || registers.width == width)) return make();
  throw std::invalid_argument("this processor has no such registers");
}

}  // namespace

Learner::~Learner() = default;
ActorCriticLearner::~ActorCriticLearner() = default;
QLearner::~QLearner() = default;
ValueLearner::~ValueLearner() = default;

void polyak_update(float* target, const float* source, std::int64_t size, float rate) {
  for (std::int64_t i = 0; i < size; ++i) target[i] += rate * (source[i] - target[i]);
}

std::vector<int> widths(bool bfloat16) {
  std::vector<int> all;
  for (const Found& each : found())
    if (each.bfloat16 == bfloat16) all.push_back(each.width);
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

std::unique_ptr<ValueLearner> make_value_learner(Network network, Adam radam, Registers registers) {
  return std::unique_ptr<ValueLearner>(makers_of(registers).values(std::move(network), radam));
}

}  // namespace headrace::learner
