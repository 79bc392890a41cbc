// MuJoCo environments against a plain loop over mj_step, with a task whose functions are written in C++.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "../engine/engine.hpp"
#include "../mujoco/mujoco_env.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::mujoco;
using namespace std::chrono_literals;

namespace {

constexpr int kN = 12, kFrameSkip = 3, kSteps = 40;

// boxes that fall on a plane and on each other: contacts, warm starts, an actuator
constexpr const char* kBoxes = R"(
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom type="plane" size="2 2 1"/>
    <body pos="0 0 0.3"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
    <body pos=".05 0 0.6"><joint name="slide" type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
      <geom type="capsule" size=".05 .1" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="slide" gear="5" ctrllimited="true" ctrlrange="-1 1"/></actuator>
</mujoco>)";

using Model = std::unique_ptr<mjModel, void (*)(mjModel*)>;

Model model_of(const char* xml) {
  mjVFS vfs;
  mj_defaultVFS(&vfs);
  CHECK(mj_addBufferVFS(&vfs, "model.xml", xml, static_cast<int>(std::strlen(xml))) == 0);
  char error[500] = "";
  mjModel* model = mj_loadXML("model.xml", &vfs, error, sizeof error);
  if (!model) std::fprintf(stderr, "%s\n", error);
  CHECK(model);
  mj_deleteVFS(&vfs);
  return {model, mj_deleteModel};
}

// the arguments of a compiled function: what the task's functions see
struct Arguments {
  double* qpos;
  double* qvel;
  double* xpos;
  int* ncon;
  std::int32_t env_id, command;
  struct Table* table;
};

// N rows of everything
struct Table {
  Table(const mjModel& m, std::size_t state_bytes)
      : nq(m.nq), nv(m.nv), state(kN * state_bytes), actions(static_cast<std::size_t>(kN * m.nu)),
        obs(static_cast<std::size_t>(kN * (m.nq + m.nv))), reward(kN), terminated(kN), accepted(kN), warning(kN),
        seed(kN), drawn(kN), starts(kN), cost(kN) {}

  int nq, nv;
  std::vector<std::byte> state;
  std::vector<double> actions, obs;
  std::vector<float> reward;
  std::vector<std::uint8_t> terminated, accepted;
  std::vector<std::int32_t> warning;
  std::vector<std::uint64_t> seed, drawn, starts;
  std::vector<double> cost;
  int refused = 0;  // starts of an episode before one is accepted
};

void begin(const Table& t, int env, std::uint64_t starts, double* qpos, double* qvel) {
  qpos[0] += 0.01 * static_cast<double>(t.seed[static_cast<std::size_t>(env)] % 7);
  qvel[3] = 0.5 * static_cast<double>(starts % 5);
  if (t.refused > 0 && starts % 2 == 1) qpos[2] = 0.05;  // in the ground
}

void serve(const void*, void* arguments) {
  auto& a = *static_cast<Arguments*>(arguments);
  Table& t = *a.table;
  const auto env = static_cast<std::size_t>(a.env_id);
  if (a.command == kReset) {
    ++t.starts[env];
    begin(t, a.env_id, t.starts[env], a.qpos, a.qvel);
  } else if (a.command == kAccept) {
    CHECK(a.xpos[3] == a.qpos[0] && a.xpos[5] == a.qpos[2]);
    CHECK((*a.ncon > 0) == (t.starts[env] % 2 == 1));
    t.accepted[env] = t.starts[env] % static_cast<std::uint64_t>(t.refused + 1) == 0;
  } else {
    if (a.command == kStep) {
      t.reward[env] = static_cast<float>(a.qvel[0]);
      t.terminated[env] = false;
      t.cost[env] = t.actions[env];
    }
    double* obs = &t.obs[env * static_cast<std::size_t>(t.nq + t.nv)];
    std::copy_n(a.qpos, t.nq, obs);
    std::copy_n(a.qvel, t.nv, obs + t.nq);
  }
}

template <class T>
Rows rows_of(std::vector<T>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), v.size() * sizeof(T) / kN};
}

// a pool of kN environments, and a batch of all of them
struct Pool {
  Pool(const mjModel& m, int batch, int threads, int refused = 0) : model(m), table(make(m)), actions(kN) {
    table->refused = refused;
    Task task(physics, nullptr,
              {rows_of(table->state),    rows_of(table->actions), rows_of(table->reward), rows_of(table->terminated),
               rows_of(table->accepted), rows_of(table->warning), rows_of(table->seed),   rows_of(table->drawn),
               {{rows_of(table->starts), sizeof(std::uint64_t)}}});
    task.rules.frame_skip = kFrameSkip;
    task.rules.may_refuse = refused > 0;
    task.report("obs", "float64", {static_cast<int>(m.nq + m.nv)}, rows_of(table->obs));
    task.report("info:cost", "float64", {}, rows_of(table->cost));
    task.report("info:warning", "int32", {}, rows_of(table->warning));
    Settings s;
    s.num_envs = kN, s.batch_size = batch, s.num_threads = threads;
    s.seeds.resize(kN);
    std::iota(s.seeds.begin(), s.seeds.end(), 3);
    obs.resize(static_cast<std::size_t>(batch * (m.nq + m.nv)));
    for (auto* v : {&reward}) v->resize(static_cast<std::size_t>(batch));
    for (auto* v : {&terminated, &truncated}) v->resize(static_cast<std::size_t>(batch));
    for (auto* v : {&env_id, &elapsed, &warning}) v->resize(static_cast<std::size_t>(batch));
    cost.resize(static_cast<std::size_t>(batch));
    slot.rows = batch;
    slot.arrays = {at(obs), at(reward), at(terminated), at(truncated), at(env_id), at(elapsed), at(cost), at(warning)};
    engine = std::make_unique<Engine>(simulator(std::move(task)), std::move(s));
  }

  std::unique_ptr<Table> make(const mjModel& m) {
    auto t = std::make_unique<Table>(m, 0);
    Program program;
    program.function = serve;
    program.arguments.resize(sizeof(Arguments));
    Arguments blank{nullptr, nullptr, nullptr, nullptr, 0, 0, t.get()};
    std::memcpy(program.arguments.data(), &blank, sizeof blank);
    program.env_id = offsetof(Arguments, env_id), program.command = offsetof(Arguments, command);
    program.arrays = {{offsetof(Arguments, qpos), "qpos"}, {offsetof(Arguments, qvel), "qvel"},
                      {offsetof(Arguments, xpos), "xpos"}, {offsetof(Arguments, ncon), "ncon"}};
    physics = std::make_shared<Physics>(m, std::move(program), std::vector<Varying>{}, false);
    t->state.resize(kN * physics->state_bytes());
    return t;
  }

  template <class T>
  static std::byte* at(std::vector<T>& v) { return reinterpret_cast<std::byte*>(v.data()); }

  void finish() {
    engine->take_part();
    while (!engine->wait_done(100ms)) {
    }
    engine->check();
  }
  void reset() { engine->start_reset(nullptr, nullptr, slot), finish(); }
  void step() { engine->start_step(at(actions), nullptr, slot), finish(); }

  const mjModel& model;
  std::shared_ptr<Physics> physics;
  std::unique_ptr<Table> table;
  std::vector<double> actions, obs, cost;
  std::vector<float> reward;
  std::vector<std::uint8_t> terminated, truncated;
  std::vector<std::int32_t> env_id, elapsed, warning;
  Slot slot;
  std::unique_ptr<Engine> engine;
};

double action_of(int env, int step) { return std::sin(0.7 * step + env); }

// what a plain loop gives from the first start on: one mjData an environment, nothing shared
std::vector<std::vector<double>> plain_loop(const mjModel& m, const Table& t) {
  std::vector<std::vector<double>> seen;
  for (int env = 0; env < kN; ++env) {
    mjData* d = mj_makeData(&m);
    mj_resetData(&m, d);
    begin(t, env, 1, d->qpos, d->qvel);
    mj_forward(&m, d);
    std::vector<double> all;
    for (int step = 0; step < kSteps; ++step) {
      d->ctrl[0] = action_of(env, step);
      for (int i = 0; i < kFrameSkip; ++i) mj_step(&m, d);
      all.insert(all.end(), d->qpos, d->qpos + m.nq);
      all.insert(all.end(), d->qvel, d->qvel + m.nv);
    }
    mj_deleteData(d);
    seen.push_back(std::move(all));
  }
  return seen;
}

void equal_to_a_plain_loop() {
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
        CHECK(std::memcmp(&pool.obs[env * row], &wanted[env][static_cast<std::size_t>(step) * row], row * sizeof(double)) == 0);
        CHECK(pool.cost[env] == pool.actions[env] && pool.warning[env] == 0 && !pool.terminated[env]);
      }
    }
  }
}

void equal_in_any_order() {
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
        CHECK(std::memcmp(&from.obs[static_cast<std::size_t>(i) * row], &wanted[env][static_cast<std::size_t>(step) * row],
                          row * sizeof(double)) == 0);
      const double action = action_of(static_cast<int>(env), steps[env]);
      const int id = static_cast<int>(env);
      // the slot must be taken before its environments go on
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
  // and a state that cannot be
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
  pool.step();  // the two begin again
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

void refused_starts() {
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
  { CHECK(*stock.borrow(make) < 2 && made == 2); }
  try {
    auto broken = stock.borrow(make);
    throw std::runtime_error("while it is lent");
  } catch (const std::runtime_error&) {
  }
  {
    auto one = stock.borrow(make), other = stock.borrow(make);
    CHECK(made == 3);  // what an error left behind was not lent again
  }
  stock.clear();
  { CHECK(*stock.borrow(make) == 3); }
}

}  // namespace

int main() {
  install_callbacks();
  equal_to_a_plain_loop();
  equal_in_any_order();
  divergence_ends_the_episode();
  errors_of_mujoco_are_failures();
  refused_starts();
  saved_states_continue();
  models_that_remember_more_than_their_state_are_refused();
  things_are_lent_and_kept();
  std::puts("test_mujoco: all passed");
}
