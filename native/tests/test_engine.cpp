// Episodes, rows and failures of the engine, with a simulator whose every result is known.
#include "../engine/engine.hpp"

#include <map>
#include <numeric>

#include "check.hpp"

using namespace headrace;
using namespace std::chrono_literals;

namespace {

// obs = (seed, episode, steps); an episode lasts 3 + seed % 4 steps; actions 98 and 99 throw; after
// action 97 the next episode goes on where this one ends
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

Simulator ladders() {
  return {Shown(), 2, 2, [](int) { return std::make_unique<Ladder>(); }};
}

// what a simulator that steps several together was asked for
struct Groups {
  std::atomic<int> calls{0}, largest{0};
  std::atomic<bool> breaks{false};  // the next call throws
};

// the same, several together
Simulator grouped_ladders(int group, Groups& groups) {
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

Settings settings_of(int n, int batch, int threads, Autoreset autoreset) {
  Settings s;
  s.num_envs = n, s.batch_size = batch, s.num_threads = threads, s.autoreset = autoreset;
  s.seeds.resize(static_cast<std::size_t>(n));
  std::iota(s.seeds.begin(), s.seeds.end(), 10);
  return s;
}

// the arrays of a batch and the slot that points at them
struct Arrays {
  explicit Arrays(int rows)
      : obs(static_cast<std::size_t>(rows) * 3), reward(static_cast<std::size_t>(rows)),
        terminated(reward.size()), truncated(reward.size()), env_id(reward.size()), elapsed(reward.size()),
        steps(reward.size()), final_obs(obs.size()), final_elapsed(reward.size()), final_steps(reward.size()) {
    slot.rows = rows;
    slot.arrays = {at(obs), at(reward), at(terminated), at(truncated), at(env_id), at(elapsed),
                   at(steps), at(final_obs), at(final_elapsed), at(final_steps)};
  }
  template <class T>
  static std::byte* at(std::vector<T>& v) { return reinterpret_cast<std::byte*>(v.data()); }

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

const std::byte* bytes(const std::vector<std::int64_t>& v) { return reinterpret_cast<const std::byte*>(v.data()); }

void step(Engine& engine, const std::vector<std::int64_t>& actions, Arrays& out, const int* ids = nullptr) {
  engine.start_step(bytes(actions), ids, out.slot);
  engine.take_part();
  CHECK(engine.wait_done(10s));
  engine.check();
}

void reset(Engine& engine, Arrays& out, const int* ids = nullptr, const std::uint64_t* seeds = nullptr) {
  engine.start_reset(ids, seeds, out.slot);
  engine.take_part();
  CHECK(engine.wait_done(10s));
  engine.check();
}

void next_step_autoreset() {
  Engine engine(ladders(), settings_of(1, 1, 1, Autoreset::next_step));  // seed 10: five steps
  Arrays out(1);
  reset(engine, out);
  CHECK(out.elapsed[0] == 0 && out.obs[1] == 1);
  for (int i = 1; i <= 5; ++i) {
    step(engine, {7}, out);
    CHECK(out.elapsed[0] == i && out.reward[0] == 7 && out.terminated[0] == (i == 5) && !out.truncated[0]);
  }
  step(engine, {7}, out);
  CHECK(out.elapsed[0] == 0 && out.reward[0] == 0 && !out.terminated[0] && out.obs[1] == 2 && out.obs[2] == 0);
}

void same_step_autoreset() {
  auto settings = settings_of(1, 1, 1, Autoreset::same_step);
  settings.max_episode_steps = 5;  // both ends at once
  Engine engine(ladders(), settings);
  Arrays out(1);
  reset(engine, out);
  for (int i = 1; i <= 5; ++i) step(engine, {1}, out);
  CHECK(out.terminated[0] && out.truncated[0]);
  CHECK(out.elapsed[0] == 0 && out.obs[1] == 2 && out.obs[2] == 0 && out.steps[0] == 0);
  CHECK(out.final_elapsed[0] == 5 && out.final_obs[1] == 1 && out.final_obs[2] == 5 && out.final_steps[0] == 5);
}

// steps count on, and the limit is on all of them
void an_episode_that_goes_on() {
  for (auto autoreset : {Autoreset::next_step, Autoreset::same_step}) {
    auto settings = settings_of(1, 1, 1, autoreset);  // seed 10: ends from its fifth step on
    settings.max_episode_steps = 7;
    Engine engine(ladders(), settings);
    Arrays out(1);
    reset(engine, out);
    for (int i = 1; i <= 4; ++i) step(engine, {1}, out);
    step(engine, {97}, out);
    CHECK(out.terminated[0]);
    if (autoreset == Autoreset::next_step) step(engine, {97}, out);
    CHECK(out.elapsed[0] == 5 && out.obs[1] == 2 && out.obs[2] == 5);
    for (int i = 6; i <= 7; ++i) step(engine, {97}, out);
    CHECK(out.truncated[0]);
    if (autoreset == Autoreset::next_step) step(engine, {97}, out);
    CHECK(out.elapsed[0] == 0 && out.obs[1] == 3 && out.obs[2] == 0);
    reset(engine, out);
    for (int i = 1; i <= 5; ++i) step(engine, {97}, out);
    reset(engine, out);  // who asks for a reset gets one
    CHECK(out.elapsed[0] == 0 && out.obs[2] == 0);
  }
}

void truncation() {
  auto settings = settings_of(1, 1, 1, Autoreset::disabled);
  settings.max_episode_steps = 4;
  Engine engine(ladders(), settings);
  Arrays out(1);
  reset(engine, out);
  for (int i = 1; i <= 4; ++i) step(engine, {1}, out);
  CHECK(out.truncated[0] && !out.terminated[0]);
}

// what each environment does is the same for any number of threads
void any_number_of_threads() {
  constexpr int n = 37;
  std::vector<std::int64_t> reference;
  for (int threads : {1, 2, 5}) {
    Engine engine(ladders(), settings_of(n, n, threads, Autoreset::next_step));
    Arrays out(n);
    reset(engine, out);
    std::vector<std::int64_t> actions(n), seen;
    for (int t = 0; t < 200; ++t) {
      for (int i = 0; i < n; ++i) actions[static_cast<std::size_t>(i)] = (t * 31 + i) % 17;
      step(engine, actions, out);
      for (int i = 0; i < n; ++i) CHECK(out.env_id[static_cast<std::size_t>(i)] == i);
      seen.insert(seen.end(), out.obs.begin(), out.obs.end());
    }
    if (reference.empty()) reference = seen;
    CHECK(seen == reference);
  }
}

// all that a pool ever shows, over episodes of all lengths and failures that are reset away
std::vector<std::int64_t> history(Simulator simulator, Autoreset autoreset, int threads) {
  constexpr int n = 37;
  auto settings = settings_of(n, n, threads, autoreset);
  settings.max_episode_steps = 5;
  Engine engine(std::move(simulator), settings);
  Arrays out(n), few(5);
  reset(engine, out);
  std::vector<std::int64_t> actions(n), seen;
  std::uint32_t chance = 1;
  auto next = [&] { return chance = chance * 1664525 + 1013904223; };
  auto note = [&](const Arrays& arrays) {
    for (std::size_t i = 0; i < arrays.reward.size(); ++i)
      seen.insert(seen.end(), {static_cast<std::int64_t>(arrays.reward[i]), arrays.terminated[i], arrays.truncated[i],
                               arrays.env_id[i], arrays.elapsed[i], arrays.steps[i], arrays.final_elapsed[i]});
    seen.insert(seen.end(), arrays.obs.begin(), arrays.obs.end());
    seen.insert(seen.end(), arrays.final_obs.begin(), arrays.final_obs.end());
  };
  auto noted = [&](auto call, const Arrays& arrays) {
    try {
      call();
    } catch (const Failure& failure) {
      seen.push_back(failure.env_id);
    }
    note(arrays);
  };
  for (int t = 0; t < 60; ++t) {
    for (auto& a : actions) a = (next() >> 8) % 100;  // a few are 97 to 99
    noted([&] { step(engine, actions, out); }, out);
    const int first = static_cast<int>((next() >> 8) % (n - 5));
    const std::vector<int> ids = {first + 4, first, first + 2, first + 1, first + 3};
    if (t % 3 == 0) noted([&] { reset(engine, few, ids.data()); }, few);
    else noted([&] { step(engine, {1, 2, 3, 4, 5}, few, ids.data()); }, few);
  }
  return seen;
}

// whoever steps together, each environment does the same as alone
void groups_change_nothing() {
  for (auto autoreset : {Autoreset::next_step, Autoreset::same_step, Autoreset::disabled}) {
    const auto alone = history(ladders(), autoreset, 1);
    for (int group : {1, 3, 8, kMostGroup})
      for (int threads : {1, 3}) {
        Groups groups;
        CHECK(history(grouped_ladders(group, groups), autoreset, threads) == alone);
        CHECK(groups.calls > 0 && (group == 1 || groups.largest > 1));
      }
  }
}

void episodes_begin_outside_groups() {
  Groups groups;
  Engine engine(grouped_ladders(8, groups), settings_of(8, 8, 1, Autoreset::next_step));
  Arrays out(8);
  reset(engine, out);
  CHECK(groups.calls == 0);
  const std::vector<std::int64_t> actions(8, 1);
  for (int i = 1; i <= 4; ++i) step(engine, actions, out);
  CHECK(groups.calls == 4 && groups.largest == 8);
  groups.largest = 0;
  step(engine, actions, out);  // those whose episode lasted three steps begin their next one
  CHECK(groups.calls == 5 && groups.largest == 6);
}

void failures_of_groups() {
  Groups groups;
  Engine engine(grouped_ladders(4, groups), settings_of(8, 8, 1, Autoreset::next_step));
  Arrays out(8);
  reset(engine, out);
  auto failed = [&](const std::vector<std::int64_t>& actions) {
    try {
      step(engine, actions, out);
    } catch (const Failure& failure) {
      return std::pair(failure.env_id, std::string(failure.what()));
    }
    return std::pair(-1, std::string());
  };
  CHECK(failed({1, 1, 99, 1, 1, 1, 1, 1}) == std::pair(2, std::string("99 is not my number")));
  for (std::size_t i = 0; i < 8; ++i) CHECK(out.elapsed[i] == (i != 2) && out.reward[i] == (i != 2));
  groups.breaks = true;
  const std::vector<std::int64_t> ones(8, 1);
  CHECK(failed(ones).first == 0);
  CHECK(failed(ones) == std::pair(0, std::string("it failed before and was not reset since")));
  for (std::size_t i = 0; i < 8; ++i) CHECK(out.elapsed[i] == (i < 4 ? 0 : 3));
  reset(engine, out);
  CHECK(failed(ones).first == -1);
}

void rows_in_the_order_sent() {
  Engine engine(ladders(), settings_of(4, 4, 3, Autoreset::next_step));
  Arrays all(4), some(3);
  reset(engine, all);
  std::vector<int> ids = {3, 1, 2};
  step(engine, {30, 10, 20}, some, ids.data());
  for (std::size_t i = 0; i < 3; ++i) CHECK(some.env_id[i] == ids[i] && some.reward[i] == static_cast<float>(ids[i] * 10));
}

void failures_are_reported_and_reset_away() {
  Engine engine(ladders(), settings_of(4, 4, 2, Autoreset::next_step));
  Arrays all(4), one(1);
  reset(engine, all);
  for (int again = 0; again < 2; ++again) {
    try {
      step(engine, {1, again ? 98 : 99, 1, again ? 1 : 98}, all);
      CHECK(false);
    } catch (const Failure& failure) {
      CHECK(failure.env_id == 1);
    }
    CHECK(all.elapsed[0] == again + 1);  // the others were stepped
  }
  std::vector<int> ids = {1};
  reset(engine, one, ids.data());
  step(engine, {5}, one, ids.data());
  CHECK(one.reward[0] == 5);
}

void a_simulator_that_cannot_be_made() {
  auto simulator = ladders();
  simulator.make = [](int i) -> std::unique_ptr<Environment> {
    if (i == 2) throw std::runtime_error("no");
    return std::make_unique<Ladder>();
  };
  try {
    Engine engine(simulator, settings_of(4, 4, 2, Autoreset::next_step));
    CHECK(false);
  } catch (const Failure& failure) {
    CHECK(failure.env_id == 2);
  }
}

// threads still read what a second loop would overwrite
void one_loop_at_a_time() {
  Engine engine(ladders(), settings_of(4, 4, 1, Autoreset::next_step));
  Arrays out(4), other(4);
  reset(engine, out);
  std::vector<std::int64_t> actions = {1, 2, 3, 4}, late = {9, 9, 9, 9};
  engine.start_step(bytes(actions), nullptr, out.slot);
  for (int again = 0; again < 2; ++again) {
    try {
      if (again) engine.start_reset(nullptr, nullptr, other.slot);
      else engine.start_step(bytes(late), nullptr, other.slot);
      CHECK(false);
    } catch (const Busy&) {
    }
  }
  engine.take_part();
  CHECK(engine.wait_done(10s));
  for (std::size_t i = 0; i < 4; ++i) CHECK(out.reward[i] == static_cast<float>(i + 1));
}

void load(Engine& engine, int env_id, const std::vector<std::byte>& blob) {
  const Engine::Bytes state(blob);
  engine.load({&env_id, 1}, {&state, 1});
}

// of several states all are taken over or none
void refused_states_change_nothing() {
  Engine engine(ladders(), settings_of(3, 3, 1, Autoreset::next_step)), another(ladders(), [] {
    auto settings = settings_of(1, 1, 1, Autoreset::next_step);
    settings.seeds = {666};
    return settings;
  }());
  Arrays out(3), one(1);
  reset(engine, out);
  reset(another, one);
  std::vector<std::vector<std::byte>> before(3);
  for (int i = 0; i < 3; ++i) engine.save(i, before[static_cast<std::size_t>(i)]);
  std::vector<std::byte> good, bad;
  step(engine, {1, 1, 1}, out);
  engine.save(0, good);
  load(engine, 0, before[0]);
  another.save(0, bad);
  const int ids[] = {2, 1};
  const Engine::Bytes states[] = {good, bad};
  try {
    engine.load(ids, states);
    CHECK(false);
  } catch (const BadState& refused) {
    CHECK(refused.env_id == 1 && refused.what() == std::string("no such seed"));
  }
  step(engine, {1, 1, 1}, out);
  CHECK(out.obs[0] == 10 && out.obs[3] == 11 && out.obs[6] == 12);
  CHECK(out.obs[2] == 1 && out.obs[5] == 2 && out.obs[8] == 2);
}

void saved_states() {
  Engine engine(ladders(), settings_of(2, 2, 1, Autoreset::next_step));
  Arrays out(2);
  reset(engine, out);
  step(engine, {1, 1}, out);
  std::vector<std::byte> blob;
  engine.save(0, blob);
  load(engine, 1, blob);
  step(engine, {1, 1}, out);
  CHECK(out.obs[0] == out.obs[3] && out.obs[2] == out.obs[5] && out.elapsed[1] == 2);
  for (std::size_t cut : {std::size_t{0}, blob.size() - 1, blob.size() + 1}) {
    auto wrong = blob;
    wrong.resize(cut);
    try {
      load(engine, 1, wrong);
      CHECK(false);
    } catch (const BadState& bad) {
      CHECK(bad.env_id == 1);
    }
  }
}

// each environment sees its own actions in its own order, and every row comes back once
void asynchronous(int n, int batch, int threads, int topology_nodes, int group = 1) {
  auto settings = settings_of(n, batch, threads, Autoreset::next_step);
  settings.topology.nodes.assign(static_cast<std::size_t>(topology_nodes), settings.topology.nodes[0]);
  Groups groups;
  Engine engine(group > 1 ? grouped_ladders(group, groups) : ladders(), settings);
  std::vector<std::unique_ptr<Arrays>> arrays;
  std::vector<Slot> slots;
  for (int i = 0; i < engine.num_slots(); ++i) {
    arrays.push_back(std::make_unique<Arrays>(batch));
    slots.push_back(arrays.back()->slot);
  }
  engine.set_slots(slots);
  std::vector<int> ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  engine.send_reset(ids.data(), nullptr, n);
  auto spare = std::make_unique<Arrays>(batch);
  std::map<int, std::int64_t> sent;
  for (int round = 0; round < 400; ++round) {
    CHECK(engine.wait_ready(10s));
    engine.check_ready();
    auto position = static_cast<std::size_t>(engine.replace_ready(spare->slot));
    std::swap(arrays[position], spare);
    std::vector<std::int64_t> actions;
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
      int id = spare->env_id[i];
      CHECK(spare->obs[3 * i] == id + 10 && spare->elapsed[i] == spare->obs[3 * i + 2]);
      if (sent.contains(id)) CHECK(spare->reward[i] == 0 || spare->reward[i] == static_cast<float>(sent[id]));
      sent[id] = (round + id) % 50 + 1;
      actions.push_back(sent[id]);
    }
    engine.send_step(bytes(actions), spare->env_id.data(), batch);
  }
  CHECK(engine.wait_idle(10s));
  engine.forget();
  engine.send_reset(ids.data(), nullptr, n);
  CHECK(engine.wait_ready(10s));
  CHECK(engine.wait_idle(10s));
}

// an engine may go while its threads are busy with what was sent
void ends_in_flight() {
  constexpr int n = 64;
  for (int round = 0; round < 30; ++round) {
    std::vector<Arrays> arrays;
    std::vector<Slot> slots;
    std::vector<int> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    Engine engine(ladders(), settings_of(n, 8, 3, Autoreset::next_step));
    for (int i = 0; i < engine.num_slots(); ++i) slots.push_back(arrays.emplace_back(8).slot);
    engine.set_slots(slots);
    engine.send_reset(ids.data(), nullptr, n);
  }
}

}  // namespace

int main() {
  next_step_autoreset();
  same_step_autoreset();
  an_episode_that_goes_on();
  truncation();
  any_number_of_threads();
  groups_change_nothing();
  episodes_begin_outside_groups();
  failures_of_groups();
  rows_in_the_order_sent();
  failures_are_reported_and_reset_away();
  a_simulator_that_cannot_be_made();
  one_loop_at_a_time();
  saved_states();
  refused_states_change_nothing();
  asynchronous(16, 4, 3, 1);
  asynchronous(7, 3, 2, 2);
  asynchronous(5, 4, 4, 1);
  asynchronous(16, 4, 3, 1, 3);
  asynchronous(64, 32, 2, 2, 8);
  ends_in_flight();
  std::puts("test_engine: 18 passed, 0 failed");
}
