// NumPy's random streams, so that an environment seeded here draws what its Python
// original draws. This reproduces the algorithms that NumPy documents and keeps stable:
//
// - SeedSequence (NEP 19; M. E. O'Neill, "Developing a seed_seq Alternative", 2015)
// - PCG64, that is PCG XSL RR 128/64 (M. E. O'Neill, "PCG", HMC-CS-2014-0905)
// - Generator.integers with D. Lemire's method ("Fast Random Integer Generation in an
//   Interval", 2019) over 32-bit halves of the 64-bit output
//
// tests/envs/test_atari_alignment.py checks every function here against NumPy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace headrace {

// numpy.random.SeedSequence(entropy) for one non-negative integer below 2**64
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t entropy) {
    const std::array<std::uint32_t, kPool> words = {static_cast<std::uint32_t>(entropy),
                                                    static_cast<std::uint32_t>(entropy >> 32)};
    std::uint32_t hash = 0x43b0d7e5u;
    auto hashed = [&hash](std::uint32_t value) {
      value ^= hash;
      hash *= 0x931e8875u;
      value *= hash;
      return value ^ (value >> 16);
    };
    for (std::size_t i = 0; i < kPool; ++i) pool_[i] = hashed(words[i]);
    for (std::size_t src = 0; src < kPool; ++src)
      for (std::size_t dst = 0; dst < kPool; ++dst)
        if (src != dst) pool_[dst] = mixed(pool_[dst], hashed(pool_[src]));
  }

  // generate_state(n, uint32)
  std::vector<std::uint32_t> words(std::size_t n) const {
    std::vector<std::uint32_t> out(n);
    std::uint32_t hash = 0x8b51f9ddu;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t value = pool_[i % kPool] ^ hash;
      hash *= 0x58f38dedu;
      value *= hash;
      out[i] = value ^ (value >> 16);
    }
    return out;
  }

 private:
  static constexpr std::size_t kPool = 4;

  static std::uint32_t mixed(std::uint32_t x, std::uint32_t y) {
    const std::uint32_t z = 0xca01f9ddu * x - 0x4973f715u * y;
    return z ^ (z >> 16);
  }

  std::array<std::uint32_t, kPool> pool_{};
};

// numpy.random.Generator(PCG64(seed))
class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint64_t seed = 0) {
    const auto w = SeedSequence(seed).words(8);
    auto u64 = [&w](std::size_t i) { return static_cast<u128>(w[2 * i + 1]) << 32 | w[2 * i]; };
    increment_ = (u64(2) << 64 | u64(3)) << 1 | 1;
    advance();
    state_ += u64(0) << 64 | u64(1);
    advance();
  }

  std::uint64_t next64() {
    advance();
    const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    const auto turn = static_cast<unsigned>(state_ >> 122);
    return folded >> turn | folded << (-turn & 63);
  }

  // low half first; the high half waits for the next call
  std::uint32_t next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const std::uint64_t x = next64();
    has_half_ = true;
    half_ = static_cast<std::uint32_t>(x >> 32);
    return static_cast<std::uint32_t>(x);
  }

  // random(): 53 bits, in [0, 1)
  double random() { return static_cast<double>(next64() >> 11) * 0x1p-53; }

  // uniform(low, high)
  double uniform(double low, double high) { return low + (high - low) * random(); }

  // integers(low, high): low <= result < high, with high - low in [1, 2**32)
  std::int64_t integers(std::int64_t low, std::int64_t high) {
    const auto n = static_cast<std::uint32_t>(high - low);
    if (n <= 1) return low;                  // NumPy draws nothing here
    std::uint64_t product = static_cast<std::uint64_t>(next32()) * n;
    if (static_cast<std::uint32_t>(product) < n) {
      const std::uint32_t threshold = (std::numeric_limits<std::uint32_t>::max() - (n - 1)) % n;
      while (static_cast<std::uint32_t>(product) < threshold) product = static_cast<std::uint64_t>(next32()) * n;
    }
    return low + static_cast<std::int64_t>(product >> 32);
  }

  // Writer and Reader of environment.hpp use these; they copy value by value, as the gaps in an object hold any bytes.
  template <class Out>
  void save(Out& out) const {
    out.value(state_), out.value(increment_), out.value(half_), out.value(has_half_);
  }
  template <class In>
  void load(In& in) {
    state_ = in.template value<u128>(), increment_ = in.template value<u128>();
    half_ = in.template value<std::uint32_t>(), has_half_ = in.template value<bool>();
  }

 private:
  __extension__ using u128 = unsigned __int128;

  void advance() {
    constexpr u128 multiplier = static_cast<u128>(2549297995355413924ULL) << 64 | 4865540595714422341ULL;
    state_ = state_ * multiplier + increment_;
  }

  u128 state_ = 0;
  u128 increment_ = 0;
  std::uint32_t half_ = 0;
  bool has_half_ = false;
};

}  // namespace headrace
