// What a simulator must provide to run in a pool. A third party writes one file against
// this header and engine/module.hpp; everything else (threads, batches, autoreset,
// truncation, seeds, saved states) is the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "spec.hpp"

namespace headrace {

struct StepResult {
  float reward = 0;
  bool terminated = false;
  bool truncated = false;    // for the task's own reasons; the engine adds max_episode_steps
};

// It grows as it is written; keep it between calls to avoid allocations.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  void bytes(const void* data, std::size_t n) {
    auto p = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), p, p + n);
  }

  template <class T>
    requires std::is_trivially_copyable_v<T>
  void value(const T& v) {
    bytes(&v, sizeof v);
  }

  void text(std::string_view s) {
    value(static_cast<std::uint64_t>(s.size()));
    bytes(s.data(), s.size());
  }

 private:
  std::vector<std::byte>& out_;
};

// It throws std::runtime_error if a state has fewer bytes than are read.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}

  void bytes(void* data, std::size_t n) {
    if (n > in_.size()) throw std::runtime_error("saved state is too short");
    std::memcpy(data, in_.data(), n);
    in_ = in_.subspan(n);
  }

  template <class T>
    requires std::is_trivially_copyable_v<T>
  T value() {
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = value<std::uint8_t>();
      if (byte > 1) throw std::runtime_error("saved state is corrupt");
      return byte == 1;
    } else {
      T v;
      bytes(&v, sizeof v);
      return v;
    }
  }

  std::string text() {
    auto n = value<std::uint64_t>();
    if (n > in_.size()) throw std::runtime_error("saved state is too short");
    std::string s(reinterpret_cast<const char*>(in_.data()), n);
    in_ = in_.subspan(n);
    return s;
  }

  std::size_t left() const { return in_.size(); }

 private:
  std::span<const std::byte> in_;
};

// One environment. Calls never overlap, but come from different threads. Exceptions are
// reported to the caller with the environment's id.
class Environment {
 public:
  virtual ~Environment() = default;

  // Restarts all random streams from this seed; a reset follows.
  virtual void seed(std::uint64_t seed) = 0;

  // Starts a new episode.
  virtual void reset() = 0;

  // After an episode that ended by itself, begins the next one where that one left off, as a game goes on after a lost
  // life. False: nothing can go on, and a reset follows.
  virtual bool play_on() { return false; }

  // Advances by one agent step.
  virtual StepResult step(const Action& action) = 0;

  // Writes all fields of Simulator::spec.
  virtual void observe(const Row& row) const = 0;

  // Everything that decides the future: simulator, random streams, observation history. `load` throws for bytes that
  // `save` cannot have written; the engine then loads the earlier state again.
  virtual void save(Writer& out) const = 0;
  virtual void load(Reader& in) = 0;

  // Writes an RGB frame: height * width * 3 bytes, of the sizes that Simulator::frame_height and frame_width give.
  virtual void render(std::uint8_t* rgb) const = 0;
};

// One environment's part in a step of several.
struct Turn {
  Environment* env = nullptr;
  Action action{nullptr};
  StepResult result{};
  std::exception_ptr error{};  // the exception that it threw instead

  // Does a part of it, and keeps an exception as its error.
  template <class Work>
  void attempt(Work work) {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }
};

// The most environments that one call steps.
constexpr int kMostGroup = 64;

// A kind of environment: the fields of its rows, which the pool compares with the task, and a function that makes one.
struct Simulator {
  Spec spec;
  int frame_height = 0, frame_width = 0;                        // the size of a picture; 0: there are none
  std::function<std::unique_ptr<Environment>(int env_id)> make; // worker threads call it in parallel

  // If a call steps several environments in less time than they take one after the other, this is that call, and the
  // most it takes; it leaves a result or an error in each turn. The engine then calls it for one environment as well.
  // If it is empty, `Environment::step` steps each.
  int group = 1;
  std::function<void(std::span<Turn* const>)> step_together = {};
};

}  // namespace headrace
