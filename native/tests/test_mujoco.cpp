// MuJoCo environments against a plain loop over mj_step, with a task whose functions are written in C++.
#include <cmath>
#include <limits>

#include "mujoco_pool.hpp"

namespace {

void results_equal_a_plain_loop() {
  const Model model = model_of(kBoxes);
  const auto row = static_cast<std::size_t>(model->nq + model->nv);
  for (int threads : {1, 2, 5}) {
    Pool pool(*model, kN, threads);
    pool.reset();
    const auto wanted = plain_loop(*model, *pool.table);
    for (int step = 0; step < kSteps; ++step) {
      for (int env = 0; env < kN; ++env) pool.actions[static_cast<std::size_t>(env)] = action_of(env, step);
      pool.step();
      for (std::size_t env = 0; env < kN; ++env) {
        CHECK(std::memcmp(&pool.obs[env * row], &wanted[env][static_cast<std::size_t>(step) * row],
                          row * sizeof(double)) == 0);
        CHECK(pool.cost[env] == pool.actions[env] && pool.warning[env] == 0 && !pool.terminated[env]);
      }
    }
  }
}

void results_are_equal_in_any_order() {
  const Model model = model_of(kBoxes);
  const auto row = static_cast<std::size_t>(model->nq + model->nv);
  constexpr int batch = 5;
  Pool pool(*model, batch, 3);
  std::vector<std::unique_ptr<Pool>> more;  // their arrays are further slots
  std::vector<Slot> slots{pool.slot};
  while (static_cast<int>(slots.size()) < pool.engine->num_slots()) {
    more.push_back(std::make_unique<Pool>(*model, batch, 1));
    slots.push_back(more.back()->slot);
  }
  std::vector<Pool*> owners{&pool};
  for (auto& p : more) owners.push_back(p.get());
  pool.engine->set_slots(slots);
  std::vector<int> ids(kN), steps(kN, -1);
  std::iota(ids.begin(), ids.end(), 0);
  pool.engine->send_reset(ids.data(), nullptr, kN);
  std::vector<std::vector<double>> wanted;
  for (int received = 0; received < kN * kSteps / batch; ++received) {
    while (!pool.engine->wait_ready(100ms)) {
    }
    pool.engine->check_ready();
    auto& from = *owners[static_cast<std::size_t>(received) % owners.size()];
    for (int i = 0; i < batch; ++i) {
      const auto env = static_cast<std::size_t>(from.env_id[static_cast<std::size_t>(i)]);
      const int step = steps[env]++;
      if (wanted.empty()) wanted = plain_loop(*model, *pool.table);
      if (step >= 0 && step < kSteps)
        CHECK(std::memcmp(&from.obs[static_cast<std::size_t>(i) * row],
                          &wanted[env][static_cast<std::size_t>(step) * row], row * sizeof(double)) == 0);
      const double action = action_of(static_cast<int>(env), steps[env]);
      const int id = static_cast<int>(env);
      // The slot must be taken before its environments go on.
      ids[static_cast<std::size_t>(i)] = id;
      pool.actions[static_cast<std::size_t>(i)] = action;
    }
    pool.engine->replace_ready(from.slot);
    pool.engine->send_step(Pool::at(pool.actions), ids.data(), batch);
  }
  while (!pool.engine->wait_idle(100ms)) {
  }
}

void divergence_ends_the_episode() {
  const Model model = model_of(kBoxes);
  Pool pool(*model, kN, 2);
  pool.reset();
  pool.step();
  const auto before = pool.obs;
  pool.actions[4] = std::numeric_limits<double>::quiet_NaN();
  pool.actions[7] = std::numeric_limits<double>::infinity();
  // And a state that cannot be.
  auto* state = reinterpret_cast<double*>(pool.table->state.data() + 9 * pool.physics->state_bytes());
  state[1 + model->nq] = 1e200;  // behind the time and the positions: a velocity
  pool.step();
  const auto row = static_cast<std::size_t>(model->nq + model->nv);
  for (std::size_t env = 0; env < kN; ++env) {
    const bool bad = env == 4 || env == 9;  // an infinite control is cut to its range
    CHECK((pool.warning[env] != 0) == bad && pool.terminated[env] == bad);
    CHECK(std::isfinite(pool.reward[env]));
    for (std::size_t i = 0; i < row; ++i) CHECK(std::isfinite(pool.obs[env * row + i]));
    if (bad) CHECK(std::memcmp(&pool.obs[env * row], &before[env * row], row * sizeof(double)) == 0);
  }
  CHECK(pool.warning[4] == 1 + mjWARN_BADCTRL && pool.warning[9] == 1 + mjWARN_BADQVEL);
  std::fill(pool.actions.begin(), pool.actions.end(), 0.0);
  pool.step();  // both begin again
  for (std::size_t env = 0; env < kN; ++env) {
    CHECK(pool.warning[env] == 0 && !pool.terminated[env]);
    CHECK(pool.elapsed[env] == (env == 4 || env == 9 ? 0 : 3));
  }
}

void errors_of_mujoco_are_failures() {
  const Model model = model_of(kBoxes);
  model->narena = 150;  // too little for a step
  Pool pool(*model, kN, 2);
  for (int i = 0; i < 3; ++i) {
    std::string said;
    try {
      pool.reset();
    } catch (const Failure& failure) {
      said = failure.what();
    }
    CHECK(said.starts_with("MuJoCo: ") && said.find("memory") != std::string::npos);
  }
}

void refused_starts_are_tried_again() {
  const Model model = model_of(kBoxes);
  Pool pool(*model, kN, 2, 3);
  pool.reset();
  for (auto starts : pool.table->starts) CHECK(starts == 4);
  pool.table->refused = 1 << 30;
  bool refused = false;
  try {
    pool.reset();
  } catch (const Failure& failure) {
    refused = std::string(failure.what()).find("10,000") != std::string::npos;
  }
  CHECK(refused);
}

void saved_states_continue() {
  const Model model = model_of(kBoxes);
  Pool pool(*model, kN, 2), other(*model, kN, 1);
  pool.reset(), other.reset();
  for (int i = 0; i < 10; ++i) {
    for (int env = 0; env < kN; ++env) pool.actions[static_cast<std::size_t>(env)] = action_of(env, i);
    pool.step();
  }
  for (int env = 0; env < kN; ++env) {
    std::vector<std::byte> blob;
    pool.engine->save(env, blob);
    const Engine::Bytes state(blob);
    other.engine->load({&env, 1}, {&state, 1});
  }
  other.actions = pool.actions;
  for (int i = 0; i < 10; ++i) {
    pool.step(), other.step();
    CHECK(pool.obs == other.obs && pool.reward == other.reward && pool.elapsed == other.elapsed);
  }
}

void models_that_remember_more_than_their_state_are_refused() {
  const Model model = model_of(kBoxes);
  for (const int flag : {mjENBL_SLEEP, mjENBL_IPC}) {
    Model unfit(mj_copyModel(nullptr, model.get()), mj_deleteModel);
    unfit->opt.enableflags |= flag;
    bool refused = false;
    try {
      Physics physics(*unfit, Program{}, {}, false);
    } catch (const Unfit&) {
      refused = true;
    }
    CHECK(refused);
  }
}

void things_are_lent_and_kept() {
  Stock<int> stock;
  int made = 0;
  const auto make = [&] { return std::make_unique<int>(made++); };
  {
    auto one = stock.borrow(make), other = stock.borrow(make);
    CHECK(*one == 0 && *other == 1);
  }
  {
    CHECK(*stock.borrow(make) < 2 && made == 2);
  }
  try {
    auto broken = stock.borrow(make);
    throw std::runtime_error("while it is lent");
  } catch (const std::runtime_error&) {
  }
  {
    auto one = stock.borrow(make), other = stock.borrow(make);
    CHECK(made == 3);  // an object that an error left behind was not lent again
  }
  stock.borrow(make).discard();
  stock.clear();
  {
    CHECK(*stock.borrow(make) == 3);
  }
}

}  // namespace

int main() {
  install_callbacks();
  results_equal_a_plain_loop();
  results_are_equal_in_any_order();
  divergence_ends_the_episode();
  errors_of_mujoco_are_failures();
  refused_starts_are_tried_again();
  saved_states_continue();
  models_that_remember_more_than_their_state_are_refused();
  things_are_lent_and_kept();
  std::puts("test_mujoco: all passed");
}
