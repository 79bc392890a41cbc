// Lanes beside mj_step: equal but for rounding, over random models; and equal bit by bit to themselves, at any width of
// registers and in any company.
//
// test_lanes [FIRST [LAST]]: the seeds of models
#include "../lanes/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "check.hpp"
#include "generated_models.hpp"

using namespace headrace::lanes;

namespace {

constexpr int kSteps = 40, kMost = 16;
constexpr double kExploded = 1e3;  // m/s or rad/s: simulations that are not stable amplify rounding
constexpr double kNotRead = 1e9;  // in the place of a number

using State = std::vector<mjtNum>;

State state_of(const Model& m, const Data& d) {
  State state(static_cast<std::size_t>(mj_stateSize(m.get(), mjSTATE_INTEGRATION)));
  mj_getState(m.get(), d.get(), state.data(), mjSTATE_INTEGRATION);
  return state;
}

void set_state(const Model& m, const Data& d, const State& state) {
  mj_setState(m.get(), d.get(), state.data(), mjSTATE_INTEGRATION);
}

bool same_bits(const State& a, const State& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(mjtNum)) == 0;
}

std::vector<Data> several(const Model& m, int n) {
  std::vector<Data> data;
  for (int i = 0; i < n; ++i) data.push_back(data_of(m));
  return data;
}

std::vector<mjData*> pointers(const std::vector<Data>& data, int first, int n) {
  std::vector<mjData*> p;
  for (int i = first; i < first + n; ++i) p.push_back(data[static_cast<std::size_t>(i)].get());
  return p;
}

Model copied(const Model& m) {
  return Model(mj_copyModel(nullptr, m.get()), [](const mjModel* x) { mj_deleteModel(const_cast<mjModel*>(x)); });
}

// Lanes do not compute forces on bodies beside spatial tendons.
bool has_strings(const Model& m) {
  return std::any_of(m->wrap_type, m->wrap_type + m->nwrap, [](int type) { return type != mjWRAP_JOINT; });
}

std::unique_ptr<Stepper> stepper(const Model& m, int width = 0, Number number = Number::kDouble,
                                 std::vector<std::string> varies = {}) {
  Wanted wanted;
  wanted.fields = {"qpos", "qvel", "qacc", "cfrc_ext", "cvel", "subtree_com", "xfrc_applied", "qfrc_applied"};
  wanted.forces = true, wanted.varies = std::move(varies);
  if (has_strings(m)) std::erase(wanted.fields, "cfrc_ext");
  return make_stepper(m, wanted, number, width);
}

std::string refusal(const std::string& xml, Wanted wanted = {}) {
  const auto m = compiled(xml);
  CHECK(m);
  try {
    make_stepper(m, wanted);
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

// The largest difference of two arrays, divided by the largest number among them and 1.
double difference(const mjtNum* a, const mjtNum* b, mjtSize n) {
  double most = 1, worst = 0;
  for (mjtSize i = 0; i < n; ++i) {
    most = std::max(most, std::abs(a[i]));
    if (!(std::abs(a[i] - b[i]) <= worst)) worst = std::abs(a[i] - b[i]);
  }
  return worst / most;
}

double difference(const mjModel& m, const mjData& a, const mjData& b) {
  return std::max({difference(a.qpos, b.qpos, m.nq), difference(a.qvel, b.qvel, m.nv), difference(a.act, b.act, m.na),
                   difference(a.qacc_warmstart, b.qacc_warmstart, m.nv), difference(a.cvel, b.cvel, 6 * m.nbody),
                   b.cfrc_ext[6] == kNotRead ? 0 : difference(a.cfrc_ext, b.cfrc_ext, 6 * m.nbody),
                   std::abs(a.time - b.time)});
}

// Draws numbers of these fields around a model's own.
void differ(mjModel& m, const std::vector<std::string>& varies, Generator& random) {
  const auto draw = [&](const char* name, auto change) {
    if (std::ranges::count(varies, name)) change();
  };
  const auto scale = [&](mjtNum* x, mjtSize n, double low, double high) {
    for (mjtSize i = 0; i < n; ++i) x[i] *= random.real(low, high);
  };
  const auto shift = [&](mjtNum* x, mjtSize n, double far) {
    for (mjtSize i = 0; i < n; ++i) x[i] += random.real(-far, far);
  };
  draw("body_mass", [&] { scale(m.body_mass, m.nbody, 0.5, 2); });
  for (int b = 1; b < m.nbody; ++b) {
    draw("body_inertia", [&] { mju_scl3(m.body_inertia + 3 * b, m.body_inertia + 3 * b, random.real(0.5, 2)); });
    if (m.body_simple[b]) continue;
    draw("body_ipos", [&] { shift(m.body_ipos + 3 * b, 3, 0.03); });
    draw("body_iquat", [&] { shift(m.body_iquat + 4 * b, 4, 0.2), mju_normalize4(m.body_iquat + 4 * b); });
  }
  draw("dof_damping", [&] {
    for (int i = 0; i < m.nv; ++i) m.dof_damping[i] = random.chance(0.3) ? 0 : random.real(0, 1);
  });
  draw("dof_frictionloss", [&] {
    for (int i = 0; i < m.nv; ++i) m.dof_frictionloss[i] = random.chance(0.5) ? 0 : random.real(0, 1);
  });
  draw("dof_armature", [&] { scale(m.dof_armature, m.nv, 0.5, 2); });
  draw("actuator_gainprm", [&] { scale(m.actuator_gainprm, mjNGAIN * m.nactuator, 0.5, 2); });
  draw("actuator_biasprm", [&] { scale(m.actuator_biasprm, mjNBIAS * m.nactuator, 0.5, 2); });
  draw("actuator_forcerange", [&] { scale(m.actuator_forcerange, 2 * m.nactuator, 0.3, 2); });
  draw("actuator_ctrlrange", [&] { scale(m.actuator_ctrlrange, 2 * m.nu, 0.3, 2); });
  draw("geom_friction", [&] { scale(m.geom_friction, 3 * m.ngeom, 0.3, 2); });
  draw("pair_friction", [&] { scale(m.pair_friction, 5 * m.npair, 0.3, 2); });
  draw("jnt_range", [&] { scale(m.jnt_range, 2 * m.njnt, 0.5, 1.5); });
  draw("jnt_stiffness", [&] { scale(m.jnt_stiffness, m.njnt, 0.5, 2); });
  draw("qpos_spring", [&] { shift(m.qpos_spring, m.nq, 0.1); });
  draw("qpos0", [&] { shift(m.qpos0, m.nq, 0.1); });
}

const char* const kDiffer[] = {
    "body_mass",        "body_inertia", "body_ipos",           "body_iquat",         "dof_damping",
    "dof_frictionloss", "dof_armature", "actuator_gainprm",    "actuator_biasprm",   "geom_friction",
    "pair_friction",    "jnt_range",    "actuator_forcerange", "actuator_ctrlrange", "jnt_stiffness",
    "qpos_spring",      "qpos0"};

// Models that differ in these fields, with what mj_setConst computes of them.
std::vector<Model> different(const Model& m, int n, const std::vector<std::string>& varies, Generator& random) {
  std::vector<Model> own;
  for (int i = 0; i < n; ++i) {
    own.push_back(copied(m));
    if (varies.empty()) continue;
    auto& model = const_cast<mjModel&>(*own.back());
    differ(model, varies, random);
    if (std::ranges::count(varies, "body_ipos") || std::ranges::count(varies, "body_iquat"))
      model.opt.disableflags |= mjDSBL_MIDPHASE;  // as pools have it
    mj_setConst(&model, data_of(own.back()).get());
  }
  return own;
}

std::vector<const mjModel*> pointers(const std::vector<Model>& models) {
  std::vector<const mjModel*> p;
  for (const auto& m : models) p.push_back(m.get());
  return p;
}

// Some fields of these at random.
std::vector<std::string> drawn(const mjModel& m, Generator& random) {
  std::vector<std::string> varies;
  for (const char* field : kDiffer)
    if (random.chance(0.5)) varies.push_back(field);
  if (std::any_of(m.jnt_type, m.jnt_type + m.njnt, [](int type) { return type < mjJNT_SLIDE; }))
    std::erase(varies, "jnt_stiffness");  // springs of free and ball joints are libmujoco's
  return varies;
}

// The values that follow from positions and velocities, and sensors: those of the new state if `fresh`, else of the
// step's beginning. Each simulation may have its own numbers.
void equals_mujoco_after_a_step(std::uint64_t seed, bool fresh, bool differ) {
  Generator random(seed);
  const auto m = compiled(random.model());
  CHECK(m);
  Wanted wanted;
  wanted.fields = {"xpos",      "xquat",     "xmat",      "xipos",       "site_xpos",
                   "site_xmat", "geom_xpos", "geom_xmat", "subtree_com", "cvel"};
  const bool senses = !has_strings(m);
  if (senses) wanted.fields.push_back("sensordata");
  wanted.kinematics = fresh;
  if (differ) wanted.varies = drawn(*m, random);
  const auto lanes = make_stepper(m, wanted);
  CHECK(lanes->kinematics() == fresh);
  const int n = lanes->width();
  const auto theirs = several(m, n), ours = several(m, n);
  const auto own = different(m, n, wanted.varies, random);
  const auto models = pointers(own);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < m->nu; ++k) theirs[i]->ctrl[k] = random.real(-1, 1);
      set_state(m, ours[i], state_of(m, theirs[i]));
    }
    const auto left = lanes->step(pointers(ours, 0, n), 1, models);
    for (int i = 0; i < n; ++i) {
      mjData &a = *theirs[i], &b = *ours[i];
      const mjModel* x = models[i];
      mj_step(x, &a);
      a.flg_subtreevel = 0;
      if (fresh) mj_fwdPosition(x, &a), mj_sensorPos(x, &a), mj_fwdVelocity(x, &a), mj_sensorVel(x, &a);
      if (left >> i & 1) continue;
      const auto near = [](const mjtNum* x, const mjtNum* y, mjtSize count) { CHECK(difference(x, y, count) < 1e-5); };
      near(a.xpos, b.xpos, 3 * m->nbody), near(a.xquat + 4, b.xquat + 4, 4 * m->nbody - 4);
      near(a.xmat + 9, b.xmat + 9, 9 * m->nbody - 9), near(a.xipos, b.xipos, 3 * m->nbody);
      near(a.site_xpos, b.site_xpos, 3 * m->nsite), near(a.site_xmat, b.site_xmat, 9 * m->nsite);
      near(a.geom_xpos, b.geom_xpos, 3 * m->ngeom), near(a.geom_xmat, b.geom_xmat, 9 * m->ngeom);
      near(a.subtree_com + 3, b.subtree_com + 3, 3 * m->nbody - 3), near(a.cvel, b.cvel, 6 * m->nbody);
      if (senses) near(a.sensordata, b.sensordata, m->nsensordata);
    }
  }
}

// Applies forces to joints and bodies.
void push(const mjModel& m, mjData& d, Generator& random) {
  for (int i = 0; i < m.nv; ++i) d.qfrc_applied[i] = random.real(-1, 1);
  for (int i = 6; i < 6 * m.nbody; ++i) d.xfrc_applied[i] = random.real(-1, 1);
}

// Makes one step of both from equal states, and goes on from mj_step's. Returns how many steps libmujoco did not make.
int equals_mujoco(const Model& m, Generator& random, const std::string& name,
                  const std::vector<std::string>& varies = {}) {
  CHECK(m);
  auto lanes = stepper(m, 0, Number::kDouble, varies), alone = stepper(m, 1, Number::kDouble, varies);
  const int n = lanes->width();
  const auto own = different(m, n, varies, random), strict = different(m, n, {}, random);
  const auto theirs = several(m, n), ours = several(m, n), apart_from_others = several(m, 1);
  const auto models = pointers(own);
  for (const auto& d : theirs)
    for (int i = 0; i < m->nv; ++i) d->qvel[i] = random.real(-1, 1);
  for (int i = 0; i < n; ++i) {
    auto& exact = const_cast<mjModel&>(*strict[i]);
    mj_copyModel(&exact, own[i].get());
    auto& option = exact.opt;
    option.tolerance = 0, option.iterations = 1000, option.ls_iterations = 300, option.ls_tolerance = 1e-9;
  }
  const auto patient = data_of(m);
  int advanced = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < m->nu; ++k) theirs[i]->ctrl[k] = random.real(-1, 1);
      if (step == kSteps / 2) push(*m, *theirs[i], random);
      set_state(m, ours[i], state_of(m, theirs[i]));
      if (has_strings(m)) ours[i]->cfrc_ext[6] = kNotRead;  // libmujoco writes it if it makes a step
    }
    const auto left = lanes->step(pointers(ours, 0, n), 1, models);
    for (int i = 0; i < n; ++i) {
      const State before = state_of(m, theirs[i]);
      const bool exploded = mju_norm(theirs[i]->qvel, m->nv) > kExploded;
      if (!varies.empty()) {  // alone it has the same bits
        set_state(m, apart_from_others[0], before);
        CHECK(alone->step(pointers(apart_from_others, 0, 1), 1, {&models[i], 1}) == (left >> i & 1));
        CHECK(same_bits(state_of(m, apart_from_others[0]), state_of(m, ours[i])));
      }
      mj_step(own[i].get(), theirs[i].get());
      mj_rnePostConstraint(own[i].get(), theirs[i].get());
      if (left >> i & 1) {  // bodies are joined otherwise than in the plan's model
        CHECK(!std::equal(m->eq_data, m->eq_data + mjNEQDATA * m->neq, own[i]->eq_data));
        continue;
      }
      if (same_bits(state_of(m, ours[i]), state_of(m, theirs[i]))) continue;  // libmujoco stepped it
      if (exploded) continue;
      ++advanced;
      double apart = difference(*m, *theirs[i], *ours[i]);
      if (apart > 1e-8) {  // MuJoCo's solver stopped early: once more, to the end
        set_state(m, patient, before);
        mj_step(strict[i].get(), patient.get()), mj_rnePostConstraint(strict[i].get(), patient.get());
        apart = difference(*m, *patient, *ours[i]);
      }
      if (!(apart < 1e-7)) std::fprintf(stderr, "%s, step %d: %.1e apart\n", name.c_str(), step, apart);
      CHECK(apart < 1e-7);
    }
  }
  return advanced;
}

// The distance of floats from mj_step after a step from equal states, within which 99 of 100 states are.
double difference_of_floats(std::uint64_t seed) {
  std::vector<double> found{0};
  Generator random(seed);
  const auto m = compiled(random.model());
  const auto lanes = stepper(m, 0, Number::kFloat);
  const int n = lanes->width();
  const auto theirs = several(m, n), ours = several(m, n);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < m->nu; ++k) theirs[i]->ctrl[k] = random.real(-1, 1);
      set_state(m, ours[i], state_of(m, theirs[i]));
    }
    CHECK(lanes->step(pointers(ours, 0, n), 1) == 0);
    for (int i = 0; i < n; ++i) {
      const bool exploded = mju_norm(theirs[i]->qvel, m->nv) > kExploded;
      mj_step(m.get(), theirs[i].get());
      CHECK(theirs[i]->time == ours[i]->time);
      if (!exploded)
        found.push_back(std::max(difference(theirs[i]->qpos, ours[i]->qpos, m->nq),
                                 difference(theirs[i]->qvel, ours[i]->qvel, m->nv)));
    }
  }
  const auto quantile = found.begin() + static_cast<std::ptrdiff_t>(found.size() * 99 / 100);
  std::nth_element(found.begin(), quantile, found.end());
  return *quantile;
}

int equals_mujoco(std::uint64_t seed) {
  Generator random(seed);
  const auto m = compiled(random.model());
  return equals_mujoco(m, random, "seed " + std::to_string(seed));
}

// A generated model of which each simulation has its own numbers.
int equals_mujoco_where_models_differ(std::uint64_t seed) {
  Generator random(seed);
  const auto m = compiled(random.model());
  const auto varies = drawn(*m, random);
  std::string name = "differing seed " + std::to_string(seed);
  for (const auto& field : varies) name += ' ' + field;
  return equals_mujoco(m, random, name, varies);
}

// One geom on another: contacts that are easily missed or doubled.
void touches_as_mujoco() {
  const std::string box = "type='box' size='.1 .2 .15' ";
  const std::string pairs[][3] = {
      {"a sphere in a box", box, "size='.05' pos='.02 .01 .0'"},
      {"a sphere beside a box's corner", box, "size='.05' pos='.12 .22 .17'"},
      {"a capsule along a box's face", box, "type='capsule' size='.05 .15' pos='.02 .03 .195' euler='1.5707963 0 0'"},
      {"a capsule across a box's edge", box, "type='capsule' size='.05 .15' pos='.1 .03 .18' euler='0 1 .1'"},
      {"a capsule through a box", box, "type='capsule' size='.02 .4' pos='.02 .03 .01' euler='.2 .3 0'"},
      {"a box on a box", box, "type='box' size='.1 .1 .1' pos='0 0 .2499'"},
      {"a box across a box's edge", box, "type='box' size='.1 .1 .1' pos='.15 .1 .29' euler='.7 .2 .4'"},
      {"a box in a box", box, "type='box' size='.05 .03 .04' euler='.1 .2 .3'"},
      {"a cylinder on a box", box, "type='cylinder' size='.1 .1' pos='.02 .03 .2499'"},
      {"an ellipsoid on a box", box, "type='ellipsoid' size='.1 .05 .08' pos='.02 .03 .229'"},
      {"an ellipsoid beside a capsule", "type='capsule' size='.1 .2'",
       "type='ellipsoid' size='.1 .05 .08' pos='.19 0 .1'"},
      {"a mesh on a box", box, "type='mesh' mesh='stone' pos='0 0 .25'"},
      {"a sphere on a height field", "type='hfield' hfield='ground'", "size='.1' pos='.1 .2 .15'"},
      {"a capsule on a height field", "type='hfield' hfield='ground'",
       "type='capsule' size='.1 .2' pos='.1 .2 .15' euler='1.4 0 0'"},
      {"a box on a height field", "type='hfield' hfield='ground'", "type='box' size='.1 .2 .1' pos='.1 .2 .15'"},
  };
  Generator random(1);
  const auto assets = random.assets();
  for (const auto& [name, first, second] : pairs)
    for (const char* margin : {"0", ".03"}) {
      const bool ground = first.find("hfield") != std::string::npos;
      const auto m = compiled(
          "<mujoco><compiler angle='radian'/><option tolerance='1e-15' iterations='100'/><default><geom margin='" +
          std::string(margin) + "'/></default>" + assets + "<worldbody><body>" + (ground ? "" : "<freejoint/>") +
          "<geom " + first + "/></body><body><freejoint/><geom " + second + "/></body></worldbody></mujoco>");
      const int steps = equals_mujoco(m, random, name);
      if (steps < kSteps) std::fprintf(stderr, "%s: %d steps in lanes\n", name.c_str(), steps);
      CHECK(steps >= kSteps);
    }
}

// Alone, in company of any order, and in registers of any width.
void depends_on_nobody(const Model& m, Generator& random, Number number) {
  CHECK(m);
  const auto data = several(m, kMost);
  std::vector<State> first, last;
  for (const auto& d : data) {
    for (int i = 0; i < m->nv; ++i) d->qvel[i] = random.real(-1, 1);
    for (int i = 0; i < m->nu; ++i) d->ctrl[i] = random.real(-1, 1);
    first.push_back(state_of(m, d));
  }
  const auto alone = stepper(m, 1, number);
  for (int i = 0; i < kMost; ++i) {
    for (int step = 0; step < kSteps; ++step)
      if (alone->step(pointers(data, i, 1), 1)) mj_step(m.get(), data[i].get());
    last.push_back(state_of(m, data[i]));
  }
  auto tried = widths(number);
  tried.push_back(0);  // the narrowest that holds a group
  for (const int width : tried) {
    const auto lanes = stepper(m, width, number);
    for (const int group : {1, 3, 4, 7, 8, 16}) {
      if (group > lanes->width()) continue;
      std::vector<int> order(kMost);
      for (int i = 0; i < kMost; ++i) order[i] = (i * 3 + group) % kMost;
      for (int begin = 0; begin < kMost; begin += group) {
        const int n = std::min(group, kMost - begin);
        for (int i = 0; i < n; ++i) set_state(m, data[i], first[order[begin + i]]);
        for (int step = 0; step < kSteps; ++step) {
          const auto left = lanes->step(pointers(data, 0, n), 1);
          for (int i = 0; i < n; ++i)
            if (left >> i & 1) mj_step(m.get(), data[i].get());
        }
        for (int i = 0; i < n; ++i) CHECK(same_bits(state_of(m, data[i]), last[order[begin + i]]));
      }
    }
  }
}

void depends_on_nobody(std::uint64_t seed, Number number) {
  Generator random(seed);
  const auto m = compiled(random.model());
  depends_on_nobody(m, random, number);
}

// Balls on a height field, whose triangles each lane meets in its own order.
void depends_on_nobody_on_rough_ground(Number number) {
  Generator random(3);
  std::string balls;
  for (const char* place : {"0 0 .3", ".4 -.3 .35", "-.5 .2 .1"})
    balls += "<body pos='" + std::string(place) + "'><freejoint/><geom size='.12'/></body>";
  const auto m = compiled("<mujoco>" + random.assets() + "<worldbody><geom type='hfield' hfield='ground'/>" + balls +
                          "</worldbody></mujoco>");
  depends_on_nobody(m, random, number);
}

const char* const kPendulum = R"(
<mujoco><option integrator="RK4" timestep="0.002"/><worldbody>
  <body><joint axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 .5" contype="0" conaffinity="0"/>
    <body pos="0 0 .5"><joint type="ball"/>
      <geom type="capsule" size=".05" fromto="0 0 0 0 0 .5" contype="0" conaffinity="0"/></body>
  </body></worldbody></mujoco>)";

double energy(const Model& m, const Data& d) {
  mj_forward(m.get(), d.get());
  mj_energyPos(m.get(), d.get()), mj_energyVel(m.get(), d.get());
  return d->energy[0] + d->energy[1];
}

void keeps_energy() {
  const auto m = compiled(kPendulum);
  const auto d = several(m, 1);
  d[0]->qvel[0] = 1, d[0]->qvel[1] = 2, d[0]->qvel[3] = 1;
  const auto lanes = stepper(m);
  const double before = energy(m, d[0]);
  CHECK(lanes->step(pointers(d, 0, 1), 2000) == 0);
  CHECK(std::abs(d[0]->time - 4) < 1e-9);
  CHECK(std::abs(energy(m, d[0]) - before) < 1e-6 * (1 + std::abs(before)));
}

const char* const kCapsules = R"(
<mujoco><worldbody>
  <body pos="0 0 1"><freejoint/><geom type="capsule" size=".1 .3"/></body>
  <body pos="0.15 0 1"><freejoint/><geom type="capsule" size=".1 .3"/></body>
</worldbody></mujoco>)";

// Numbers that are NaN or too large: that lane alone is left, and its data is unchanged.
void leaves_what_it_cannot_step() {
  const auto m = compiled(kCapsules);
  const auto lanes = stepper(m);
  const int n = std::min(lanes->width(), 4);
  const auto data = several(m, n), beside = several(m, n);
  for (int i = 0; i < n; ++i)  // one of them is turned, so that they cross
    mju_axisAngle2Quat(data[i]->qpos + 10, (const mjtNum[]){1, 0, 0}, 0.3 + 0.1 * i),
        set_state(m, beside[i], state_of(m, data[i]));
  CHECK(lanes->step(pointers(beside, 0, n), 3) == 0);
  const auto broken = [&](int i, auto breaks) {
    const auto all = several(m, n);
    for (int k = 0; k < n; ++k) set_state(m, all[k], state_of(m, data[k]));
    breaks(*all[i]);
    const auto before = state_of(m, all[i]);
    CHECK(lanes->step(pointers(all, 0, n), 3) == 1u << i);
    for (int k = 0; k < n; ++k) CHECK(same_bits(state_of(m, all[k]), k == i ? before : state_of(m, beside[k])));
  };
  for (int i = 0; i < n; ++i) {
    broken(i, [](mjData& d) { d.qpos[0] = std::numeric_limits<double>::quiet_NaN(); });
    broken(i, [](mjData& d) { d.qvel[5] = std::numeric_limits<double>::infinity(); });
    broken(i, [](mjData& d) { d.qvel[5] = 1e11; });
  }
}

// Parallel capsules: libmujoco makes that step, bit by bit, and lanes make those of their neighbours.
void lets_mujoco_step_what_it_does_not_compute() {
  const auto m = compiled(kCapsules);
  const auto lanes = stepper(m);
  const int n = std::min(lanes->width(), 4);
  const auto data = several(m, n), alone = several(m, n), theirs = several(m, 1);
  for (int i = 0; i < n; ++i) {
    if (i != 1) mju_axisAngle2Quat(data[i]->qpos + 10, (const mjtNum[]){1, 0, 0}, 0.3 + 0.1 * i);
    set_state(m, alone[i], state_of(m, data[i]));
  }
  CHECK(lanes->step(pointers(data, 0, n), 1) == 0);
  for (int i = 0; i < n; ++i) {
    CHECK(lanes->step(pointers(alone, i, 1), 1) == 0);
    CHECK(same_bits(state_of(m, data[i]), state_of(m, alone[i])));
  }
  mj_step(m.get(), theirs[0].get()), mj_rnePostConstraint(m.get(), theirs[0].get());
  CHECK(same_bits(state_of(m, theirs[0]), state_of(m, data[1])));
  CHECK(std::equal(theirs[0]->cfrc_ext, theirs[0]->cfrc_ext + 6 * m->nbody, data[1]->cfrc_ext));
}

std::string world(const std::string& inside, const std::string& more = "") {
  return "<mujoco>" + more + "<worldbody><body name='b'><joint name='j'/><geom name='g' size='.1'/>" + inside +
         "</body></worldbody></mujoco>";
}

void says_what_it_cannot_do() {
  CHECK(refusal(world("")).empty());
  CHECK(refusal(world("", "<option integrator='implicit'/>")).find("integrator") != std::string::npos);
  CHECK(refusal(world("", "<option noslip_iterations='3'/>")).find("noslip") != std::string::npos);
  CHECK(refusal(world("", "<actuator><muscle name='m' joint='j' lengthrange='0.1 1'/></actuator>"))
            .find("actuator 0 'm'") == 0);
  Wanted wanted;
  wanted.fields = {"efc_force"};
  CHECK(refusal(world(""), wanted) == "efc_force is read");
  wanted.fields = {"qpos"}, wanted.varies = {"body_mass", "geom_size"};
  CHECK(refusal(world(""), wanted) == "geom_size differs between environments");
}

// Callbacks are left to libmujoco, also those that are set later.
void leaves_callbacks_to_mujoco() {
  const auto m = compiled(world(""));
  const auto lanes = stepper(m);
  const auto data = several(m, 1);
  const auto before = state_of(m, data[0]);
  mjcb_control = [](const mjModel*, mjData* d) { d->qfrc_applied[0] = 1; };
  CHECK(lanes->step(pointers(data, 0, 1), 1) == 1);
  CHECK(same_bits(state_of(m, data[0]), before));
  CHECK(refusal(world("")) == "the callback mjcb_control is set");
  mjcb_control = nullptr;
  CHECK(lanes->step(pointers(data, 0, 1), 1) == 0);
}

// Models that differ: each lane has its own places of bodies; if geoms that can touch are moved, libmujoco steps.
void steps_models_that_differ() {
  const auto m = compiled(
      "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 1'><joint pos='.3 0 0' axis='0 1 0'/>"
      "<geom size='.1'/></body></worldbody></mujoco>");
  const auto other = copied(m);
  auto& changed = const_cast<mjModel&>(*other);
  changed.body_pos[5] = 0.05, changed.geom_pos[3] = 0;  // it stands in the floor
  for (const bool bodies : {true, false}) {
    Wanted wanted;
    wanted.fields = {"qpos"}, wanted.varies = {bodies ? "body_pos" : "geom_pos"};
    if (!bodies) changed.geom_pos[3] = 0.2;
    const auto lanes = make_stepper(m, wanted);
    for (const bool differs : {false, true}) {
      const auto& own = differs ? other : m;
      const mjModel* models[] = {own.get()};
      const auto ours = several(m, 1), theirs = several(own, 1);
      CHECK(lanes->step(pointers(ours, 0, 1), 1, models) == (differs && !bodies));
      if (differs && !bodies) continue;
      mj_step(own.get(), theirs[0].get());
      CHECK(difference(theirs[0]->qvel, ours[0]->qvel, m->nv) < 1e-9);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (widths().empty()) return 77;  // this processor has no lanes
  mju_user_warning = [](const char*) {};
  const int first = argc > 1 ? std::atoi(argv[1]) : 0, last = argc > 2 ? std::atoi(argv[2]) : first + 12;
  int advanced = 0, near = 0;
  for (int seed = first; seed < last; ++seed) advanced += equals_mujoco(static_cast<std::uint64_t>(seed));
  CHECK(advanced > (last - first) * kSteps * widths().front() / 2);
  advanced = 0;
  for (int seed = first; seed < last; ++seed)
    advanced += equals_mujoco_where_models_differ(static_cast<std::uint64_t>(seed));
  CHECK(advanced > (last - first) * kSteps * widths().front() / 2);
  for (int seed = first; seed < last; ++seed)
    for (const bool fresh : {false, true})
      for (const bool differ : {false, true})
        equals_mujoco_after_a_step(static_cast<std::uint64_t>(seed), fresh, differ);
  for (int seed = first; seed < last; ++seed) {
    depends_on_nobody(static_cast<std::uint64_t>(seed), Number::kDouble);
    depends_on_nobody(static_cast<std::uint64_t>(seed), Number::kFloat);
    near += difference_of_floats(static_cast<std::uint64_t>(seed)) < 1e-4;
  }
  CHECK(near >= (last - first) * 9 / 10);  // others are stiff
  for (const Number number : {Number::kDouble, Number::kFloat}) depends_on_nobody_on_rough_ground(number);
  touches_as_mujoco();
  keeps_energy();
  leaves_what_it_cannot_step();
  lets_mujoco_step_what_it_does_not_compute();
  says_what_it_cannot_do();
  leaves_callbacks_to_mujoco();
  steps_models_that_differ();
  std::puts("lanes: passed");
}
