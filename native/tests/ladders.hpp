// A simulator whose results are all known, alone and in groups, and the arrays of its batches.
#pragma once

#include <atomic>
#include <numeric>

#include "../engine/engine.hpp"
#include "check.hpp"

using namespace headrace;
using namespace std::chrono_literals;

// obs = (seed, episode, steps). An episode lasts 3 + seed % 4 steps; actions 98 and 99 throw; after action 97 the next
// episode goes on where this one ends.
struct Shown : Spec {
  Field<std::int64_t> obs{this, "obs", {3}};
  Field<std::uint8_t> steps{this, "info:steps"};
  ActionField<std::int64_t> action{this};
};

class Ladder : public Environment {
 public:
  void seed(std::uint64_t seed) override { seed_ = static_cast<std::int64_t>(seed), episode_ = 0; }
  void reset() override { ++episode_, steps_ = 0; }
  bool play_on() override {
    if (plays_on_) ++episode_;
    return plays_on_;
  }
  StepResult step(const Action& action) override {
    const auto a = action.get(shown_.action);
    if (a == 99) throw std::runtime_error("99 is not my number");
    if (a == 98) throw "no exception at all";
    plays_on_ = a == 97;
    ++steps_;
    return {static_cast<float>(a), steps_ == 3 + seed_ % 4, false};
  }
  void observe(const Row& row) const override {
    auto obs = row[shown_.obs];
    obs[0] = seed_, obs[1] = episode_, obs[2] = steps_;
    row.set(shown_.steps, steps_);
  }
  void save(Writer& out) const override { out.value(seed_), out.value(episode_), out.value(steps_); }
  void load(Reader& in) override {
    seed_ = in.value<std::int64_t>(), episode_ = in.value<std::int64_t>(), steps_ = in.value<std::int64_t>();
    if (seed_ == 666) throw "no such seed";
  }
  void render(std::uint8_t* rgb) const override { std::memset(rgb, static_cast<int>(steps_), 12); }

 private:
  Shown shown_;
  std::int64_t seed_ = 0, episode_ = 0, steps_ = 0;
  bool plays_on_ = false;
};

inline Simulator ladders() {
  return {Shown(), 2, 2, [](int) { return std::make_unique<Ladder>(); }};
}

// The requests to a simulator that steps several environments together.
struct Groups {
  std::atomic<int> calls{0}, largest{0};
  std::atomic<bool> breaks{false};  // the next call throws
};

// The same simulator, which steps several environments together.
inline Simulator grouped_ladders(int group, Groups& groups) {
  auto simulator = ladders();
  simulator.group = group;
  simulator.step_together = [group, &groups](std::span<Turn* const> turns) {
    CHECK(!turns.empty() && turns.size() <= static_cast<std::size_t>(group));
    ++groups.calls;
    groups.largest = std::max(groups.largest.load(), static_cast<int>(turns.size()));
    for (Turn* turn : turns) turn->attempt([&] { turn->result = turn->env->step(turn->action); });
    if (groups.breaks.exchange(false)) throw std::runtime_error("all of them");
  };
  return simulator;
}

inline Settings settings_of(int n, int batch, int threads, Autoreset autoreset) {
  Settings s;
  s.num_envs = n, s.batch_size = batch, s.num_threads = threads, s.autoreset = autoreset;
  s.seeds.resize(static_cast<std::size_t>(n));
  std::iota(s.seeds.begin(), s.seeds.end(), 10);
  return s;
}

// The arrays of a batch, and the slot that points at them.
struct Arrays {
  explicit Arrays(int rows)
      : obs(static_cast<std::size_t>(rows) * 3),
        reward(static_cast<std::size_t>(rows)),
        terminated(reward.size()),
        truncated(reward.size()),
        env_id(reward.size()),
        elapsed(reward.size()),
        steps(reward.size()),
        final_obs(obs.size()),
        final_elapsed(reward.size()),
        final_steps(reward.size()) {
    slot.rows = rows;
    slot.arrays = {at(obs),     at(reward), at(terminated), at(truncated),     at(env_id),
                   at(elapsed), at(steps),  at(final_obs),  at(final_elapsed), at(final_steps)};
  }
  template <class T>
  static std::byte* at(std::vector<T>& v) {
    return reinterpret_cast<std::byte*>(v.data());
  }

  std::vector<std::int64_t> obs;
  std::vector<float> reward;
  std::vector<std::uint8_t> terminated, truncated;
  std::vector<std::int32_t> env_id, elapsed;
  std::vector<std::uint8_t> steps;
  std::vector<std::int64_t> final_obs;
  std::vector<std::int32_t> final_elapsed;
  std::vector<std::uint8_t> final_steps;
  Slot slot;
};

inline const std::byte* bytes(const std::vector<std::int64_t>& v) {
  return reinterpret_cast<const std::byte*>(v.data());
}

inline void step(Engine& engine, const std::vector<std::int64_t>& actions, Arrays& out, const int* ids = nullptr) {
  engine.start_step(bytes(actions), ids, out.slot);
  engine.take_part();
  CHECK(engine.wait_done(10s));
  engine.check();
}

inline void reset(Engine& engine, Arrays& out, const int* ids = nullptr, const std::uint64_t* seeds = nullptr) {
  engine.start_reset(ids, seeds, out.slot);
  engine.take_part();
  CHECK(engine.wait_done(10s));
  engine.check();
}
