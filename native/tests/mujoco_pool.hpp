// A pool of MuJoCo environments for tests: a task whose functions are written in C++, and the results of a plain loop.
#pragma once

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "../engine/engine.hpp"
#include "../mujoco/mujoco_env.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::mujoco;
using namespace std::chrono_literals;

constexpr int kN = 12, kFrameSkip = 3, kSteps = 40;

// Boxes that fall on a plane and on each other: contacts, warm starts, an actuator.
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

inline Model model_of(const char* xml) {
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

// The arguments of a compiled function, as the task's functions see them.
struct Arguments {
  double* qpos;
  double* qvel;
  double* xpos;
  int* ncon;
  std::int32_t env_id, command;
  struct Table* table;
};

// N rows of everything.
struct Table {
  Table(const mjModel& m, std::size_t state_bytes)
      : nq(m.nq),
        nv(m.nv),
        state(kN * state_bytes),
        actions(static_cast<std::size_t>(kN * m.nu)),
        obs(static_cast<std::size_t>(kN * (m.nq + m.nv))),
        reward(kN),
        terminated(kN),
        accepted(kN),
        warning(kN),
        seed(kN),
        drawn(kN),
        starts(kN),
        cost(kN) {}

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

inline void begin(const Table& t, int env, std::uint64_t starts, double* qpos, double* qvel) {
  qpos[0] += 0.01 * static_cast<double>(t.seed[static_cast<std::size_t>(env)] % 7);
  qvel[3] = 0.5 * static_cast<double>(starts % 5);
  if (t.refused > 0 && starts % 2 == 1) qpos[2] = 0.05;  // in the ground
}

inline void serve(const void*, void* arguments) {
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

// A pool of kN environments, and a batch of all of them.
struct Pool {
  Pool(const mjModel& m, int batch, int threads, int refused = 0, MakeStepper make_stepper = {})
      : model(m), table(make(m, std::move(make_stepper))), actions(kN) {
    table->refused = refused;
    Task task(physics, nullptr,
              {rows_of(table->state),
               rows_of(table->actions),
               rows_of(table->reward),
               rows_of(table->terminated),
               rows_of(table->accepted),
               rows_of(table->warning),
               rows_of(table->seed),
               rows_of(table->drawn),
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

  std::unique_ptr<Table> make(const mjModel& m, MakeStepper make_stepper) {
    auto t = std::make_unique<Table>(m, 0);
    Program program;
    program.function = serve;
    program.arguments.resize(sizeof(Arguments));
    Arguments blank{nullptr, nullptr, nullptr, nullptr, 0, 0, t.get()};
    std::memcpy(program.arguments.data(), &blank, sizeof blank);
    program.env_id = offsetof(Arguments, env_id), program.command = offsetof(Arguments, command);
    program.arrays = {{offsetof(Arguments, qpos), "qpos"},
                      {offsetof(Arguments, qvel), "qvel"},
                      {offsetof(Arguments, xpos), "xpos"},
                      {offsetof(Arguments, ncon), "ncon"}};
    physics = std::make_shared<Physics>(m, std::move(program), std::vector<Varying>{}, false, std::move(make_stepper));
    t->state.resize(kN * physics->state_bytes());
    return t;
  }

  template <class T>
  static std::byte* at(std::vector<T>& v) {
    return reinterpret_cast<std::byte*>(v.data());
  }

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

inline double action_of(int env, int step) { return std::sin(0.7 * step + env); }

// The results of a plain loop from the first start on: one mjData for each environment, nothing shared.
inline std::vector<std::vector<double>> plain_loop(const mjModel& m, const Table& t) {
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
