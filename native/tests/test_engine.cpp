// Episodes, rows and failures of the engine, with a simulator whose results are all known.
#include <map>

#include "ladders.hpp"

namespace {

void next_step_autoreset_begins_with_the_step_after() {
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

void same_step_autoreset_gives_final_values() {
  auto settings = settings_of(1, 1, 1, Autoreset::same_step);
  settings.max_episode_steps = 5;  // both ends come at once
  Engine engine(ladders(), settings);
  Arrays out(1);
  reset(engine, out);
  for (int i = 1; i <= 5; ++i) step(engine, {1}, out);
  CHECK(out.terminated[0] && out.truncated[0]);
  CHECK(out.elapsed[0] == 0 && out.obs[1] == 2 && out.obs[2] == 0 && out.steps[0] == 0);
  CHECK(out.final_elapsed[0] == 5 && out.final_obs[1] == 1 && out.final_obs[2] == 5 && out.final_steps[0] == 5);
}

// Steps count on, and the limit holds for all lives together.
void an_episode_goes_on_after_a_lost_life() {
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
    reset(engine, out);  // a reset that is asked for happens
    CHECK(out.elapsed[0] == 0 && out.obs[2] == 0);
  }
}

void episodes_are_truncated_at_their_limit() {
  auto settings = settings_of(1, 1, 1, Autoreset::disabled);
  settings.max_episode_steps = 4;
  Engine engine(ladders(), settings);
  Arrays out(1);
  reset(engine, out);
  for (int i = 1; i <= 4; ++i) step(engine, {1}, out);
  CHECK(out.truncated[0] && !out.terminated[0]);
}

// Each environment has the same results for any number of threads.
void results_are_equal_for_any_number_of_threads() {
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

void rows_come_in_the_order_sent() {
  Engine engine(ladders(), settings_of(4, 4, 3, Autoreset::next_step));
  Arrays all(4), some(3);
  reset(engine, all);
  std::vector<int> ids = {3, 1, 2};
  step(engine, {30, 10, 20}, some, ids.data());
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(some.env_id[i] == ids[i] && some.reward[i] == static_cast<float>(ids[i] * 10));
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

void a_simulator_that_cannot_be_made_is_a_failure() {
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

// Threads still read arrays that a second loop would overwrite.
void a_second_loop_is_refused() {
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

// Either all of several states are taken over, or none.
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

void saved_states_continue() {
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

// Each environment sees its own actions in its own order, and every row comes back once.
void every_row_comes_back_once(int n, int batch, int threads, int topology_nodes, int group = 1) {
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

// An engine may be destroyed while its threads are busy with actions that were sent.
void an_engine_ends_with_actions_in_flight() {
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
  next_step_autoreset_begins_with_the_step_after();
  same_step_autoreset_gives_final_values();
  an_episode_goes_on_after_a_lost_life();
  episodes_are_truncated_at_their_limit();
  results_are_equal_for_any_number_of_threads();
  rows_come_in_the_order_sent();
  failures_are_reported_and_reset_away();
  a_simulator_that_cannot_be_made_is_a_failure();
  a_second_loop_is_refused();
  saved_states_continue();
  refused_states_change_nothing();
  every_row_comes_back_once(16, 4, 3, 1);
  every_row_comes_back_once(7, 3, 2, 2);
  every_row_comes_back_once(5, 4, 4, 1);
  every_row_comes_back_once(16, 4, 3, 1, 3);
  every_row_comes_back_once(64, 32, 2, 2, 8);
  an_engine_ends_with_actions_in_flight();
  std::puts("test_engine: 15 passed, 0 failed");
}
