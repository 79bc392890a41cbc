// One step for all lanes: mj_step's stages in their order, and copies of a state into a lane and out of it.
#pragma once

#include <algorithm>

#include "check.hpp"
#include "core.hpp"
#include "inertia.hpp"
#include "integrate.hpp"
#include "sensors.hpp"

namespace headrace::lanes {
namespace {

template <class V>
void forward(const Plan& plan, Work<V>& w, bool forces) {
  kinematics(plan, w);
  com_pos(plan, w);
  tendons(plan, w);
  inertia_matrix(plan, w);
  copy_matrix(plan.mass, w.mass, plan.mass, w.factor);
  factorize_inertia(plan, w);
  bias_forces(plan, w);  // with velocities
  make_constraints(plan, w);
  passive_forces(plan, w);
  if (plan.lengths) transmissions(plan, w);
  actuator_forces(plan, w);
  smooth_acceleration(plan, w);
  constrain(plan, w, forces);
  if (plan.inner_forces) std::copy_n(w.qvel, plan.mass.size, w.last_qvel);
}

// Computes positions and velocities of a new state, and what more is read of it.
template <class V>
void refresh(const Plan& plan, Work<V>& w) {
  kinematics(plan, w);
  com_pos(plan, w);
  tendons(plan, w);
  if (plan.new_bias) bias_forces(plan, w);
  else com_vels(plan, w);
  if (plan.new_passive) passive_forces(plan, w);
  if (plan.lengths) transmissions(plan, w);
  if (plan.new_limits) find_limits(plan, w);
  if (plan.new_contacts) find_contacts(plan, w);
  sense(plan, w, plan.new_sensors);
}

template <class... Types>
constexpr bool all_trivially_destructible = (std::is_trivially_destructible_v<Types> && ...);

template <class V>
class Lanes final : public Core {
 public:
  using M = typename V::M;

  // An error of MuJoCo's jumps out of `step` and runs no destructor on its way (`guarded` in native/mujoco). So the
  // frames between `step` and a call of MuJoCo hold only objects that need none; the plan and `w_` own all memory.
  static_assert(
      all_trivially_destructible<V, M, V3<V>, Quat<V>, Mat3<V>, Touch<V>, Collider<V>, Object, ContactSense<V>>);

  explicit Lanes(const Plan& plan) : plan_(plan), w_(plan) {
    place_fixed(plan_, w_);
    place_fixed_geoms(plan_, w_);
    write_constants(plan_, w_);
  }

  std::uint32_t step(mjData* const* data, const mjModel* const* models, int count, int steps) override {
    if (callback()) return (std::uint32_t{1} << count) - 1;  // the callback was set after the model was read
    const auto own = [&](int l) -> const mjModel& { return models ? *models[l] : *plan_.model; };
    static_assert(all_trivially_destructible<decltype(own)>);
    for (int l = 0; l < V::width; ++l) {
      const int from = l < count ? l : 0;
      w_.models[l] = &own(from), w_.data[l] = data[from], load(l, *data[from], own(from));
    }
    if (w_.own(kBodyPos) || w_.own(kBodyQuat) || w_.own(kBodyIpos) || w_.own(kBodyIquat)) place_own(plan_, w_);
    const std::uint32_t all = (std::uint32_t{1} << count) - 1;
    const std::uint32_t refused = unfit(data, models, count);
    w_.live = all & ~refused;
    std::uint32_t left = 0;  // the lanes whose last step libmujoco made
    for (int i = 0; i < steps; ++i) {
      w_.bad = mask_of(refused | ~all, M());
      std::copy(w_.qpos, w_.mocap_pos, w_.before), std::copy_n(w_.time, V::width, w_.time_before);
      step_once(i + 1 == steps);
      left = bits(w_.bad) & all & ~refused;
      for (int l = 0; l < count; ++l)
        if (left >> l & 1) step_by_mujoco(l, *data[l], own(l));
    }
    const std::uint32_t renewed = plan_.kinematics ? renew(refused | ~all) : 0;
    for (int l = 0; l < count; ++l)
      if (!(refused >> l & 1)) store(l, *data[l], own(l), !(left >> l & 1), renewed >> l & 1);
    return refused;
  }

 private:
  // Returns the lanes from which no step can begin.
  std::uint32_t unfit(mjData* const* data, const mjModel* const* models, int count) {
    w_.bad = V(0) < V(0);
    check_state();
    check(w_.ctrl, static_cast<int>(plan_.model->nu));
    std::uint32_t unfit = bits(w_.bad) & ((std::uint32_t{1} << count) - 1);
    for (int l = 0; l < count; ++l)
      if (switched(*data[l]) || (models && differs(*models[l]))) unfit |= std::uint32_t{1} << l;
    return unfit;
  }

  // Lets libmujoco repeat a lane's step from its earlier state, as lanes do not compute something that it met.
  void step_by_mujoco(int l, mjData& d, const mjModel& own) {
    each_state(d, [&](const V* from, mjtNum* to, mjtSize n) {
      take(w_.before + (from - w_.qpos), static_cast<int>(n), l, to);
    });
    d.time = w_.time_before[l];
    mj_step(&own, &d);
    load(l, d, own);
  }

  void step_once(bool last) {
    check_state();
    const bool stages = plan_.integrator == mjINT_RK4, forces = last && plan_.shows_forces;
    forward(plan_, w_, (last && plan_.senses_forces) || (!stages && (forces || plan_.damped)));
    check(w_.qacc, plan_.mass.size);
    if (last && plan_.senses_bodies) post_constraint(plan_, w_, w_.qacc, true);
    if (last) sense(plan_, w_, plan_.sensors);  // the next state replaces this one
    if (stages) runge_kutta(plan_, w_, forces);
    else euler(plan_, w_);
    if (last && plan_.shows_bodies) show_bodies(stages ? w_.sum_qacc : w_.qacc);
  }

  // Computes what mj_rnePostConstraint does after a step: its accelerations take the new velocities.
  void show_bodies(const V* qacc) {
    for (std::size_t i = 0; plan_.inner_forces && i < plan_.bodies.size(); ++i)
      com_vel(plan_, plan_.bodies[i], w_, w_.last_qvel, w_.qvel);
    post_constraint(plan_, w_, qacc, plan_.inner_forces);
  }

  // Computes what is read of the new state. Returns the lanes for which libmujoco does not.
  std::uint32_t renew(std::uint32_t absent) {
    w_.bad = mask_of(absent, M());
    refresh(plan_, w_);
    return ~bits(w_.bad);
  }

  // Computes the same by libmujoco, as mj_step1 would.
  void renew_by_mujoco(mjData& d, const mjModel& own) const {
    d.flg_energypos = d.flg_energyvel = d.flg_subtreevel = 0;
    mj_fwdPosition(&own, &d), mj_sensorPos(&own, &d);
    mj_fwdVelocity(&own, &d), mj_sensorVel(&own, &d);
  }

  void check_state() {
    check(w_.qpos, static_cast<int>(plan_.model->nq));
    check(w_.qvel, plan_.mass.size);
  }

  // Marks the lanes of which MuJoCo would warn (mju_isBad).
  void check(const V* values, int n) {
    M good = V(0) == V(0);
    for (int i = 0; i < n; ++i) good = good & (abs(values[i]) <= V(1e10));
    w_.bad = w_.bad | ~good;
  }

  // Calls visit(lanes, numbers, count) for each part of a state.
  template <class Visit>
  void each_state(const mjData& d, Visit visit) {
    const mjModel& m = *plan_.model;
    visit(w_.qpos, d.qpos, m.nq), visit(w_.qvel, d.qvel, m.nv), visit(w_.act, d.act, m.na);
    visit(w_.qacc_warmstart, d.qacc_warmstart, m.nv);
  }

  // Returns whether somebody has switched an equality on or off.
  bool switched(const mjData& d) const {
    const mjModel& m = *plan_.model;
    return !std::equal(m.eq_active0, m.eq_active0 + m.neq, d.eq_active);
  }

  // Returns whether a model differs from the plan's in elements that a step reads.
  bool differs(const mjModel& own) const {
    return std::any_of(plan_.read.begin(), plan_.read.end(), [&](const Plan::Read& r) {
      return !std::equal(own.*r.field + r.begin, own.*r.field + r.end, plan_.model.get()->*r.field + r.begin);
    });
  }

  void load(int l, const mjData& d, const mjModel& own) {
    const mjModel& m = *plan_.model;
    const auto read = [l](V* to, const mjtNum* from, mjtSize n) {
      for (mjtSize i = 0; i < n; ++i) lane(to[i], l) = from[i];
    };
    each_state(d, read);
    read(w_.ctrl, d.ctrl, m.nu), w_.time[l] = d.time;
    read(w_.mocap_pos, d.mocap_pos, 3 * m.nmocap), read(w_.mocap_quat, d.mocap_quat, 4 * m.nmocap);
    if (plan_.applied) read(w_.qfrc_applied, d.qfrc_applied, m.nv), read(w_.xfrc_applied, d.xfrc_applied, 6 * m.nbody);
    for (int f = 0; f < kOwnFields; ++f)
      if (w_.owned[f])
        for (mjtSize i = 0; i < m.*kOwn[f].rows; ++i)
          read(w_.owned[f] + i * kOwn[f].used, own.*kOwn[f].field + i * kOwn[f].columns, kOwn[f].used);
  }

  // Writes the state and the wanted values. If libmujoco made the last step, it has left that step's values in place.
  void store(int l, mjData& d, const mjModel& own, bool stepped, bool renewed) {
    const auto write = [l](const V* from, mjtNum* to, mjtSize n) {
      for (mjtSize i = 0; i < n; ++i) to[i] = lane(from[i], l);
    };
    const mjModel& m = *plan_.model;
    const auto write_sensors = [&](const std::vector<int>& sensors) {
      for (const int i : sensors)
        write(w_.sensordata + m.sensor_adr[i], d.sensordata + m.sensor_adr[i], m.sensor_dim[i]);
    };
    each_state(d, write);
    d.time = w_.time[l];
    if (!stepped && plan_.shows_bodies) mj_rnePostConstraint(&own, &d);
    if (!renewed && plan_.kinematics) renew_by_mujoco(d, own);
    for (std::size_t i = 0; renewed && i < plan_.shown_new.size(); ++i) show(plan_.shown_new[i], d, own, l, write);
    if (renewed) write_sensors(plan_.new_sensors);
    if (!stepped) return;
    for (const Shown shown : plan_.shown) show(shown, d, own, l, write);
    write_sensors(plan_.sensors);
  }

  template <class Write>
  void show(Shown shown, mjData& d, const mjModel& own, int l, Write write) {
    const mjModel& m = *plan_.model;
    const auto bodies = [&](const V* from, mjtNum* to, int n) {
      for (const auto* each : {&plan_.bodies, &plan_.fixed})
        for (const Body& b : *each) write(from + n * b.id, to + n * b.id, n);
    };
    switch (shown) {
      case Shown::qacc: return write(plan_.integrator == mjINT_RK4 ? w_.sum_qacc : w_.qacc, d.qacc, m.nv);
      case Shown::xpos: return bodies(w_.xpos, d.xpos, 3);
      case Shown::xquat: return bodies(w_.xquat, d.xquat, 4);
      case Shown::xmat: return bodies(w_.xmat, d.xmat, 9);
      case Shown::xipos: return bodies(w_.xipos, d.xipos, 3);
      case Shown::ximat: return bodies(w_.ximat, d.ximat, 9);
      case Shown::site_xpos:
        return show_places(l, m.nsite, m.site_bodyid, own.site_sameframe, own.site_pos, d.site_xpos);
      case Shown::site_xmat: return show_turns(l, m.nsite, m.site_bodyid, own.site_quat, d.site_xmat);
      case Shown::geom_xpos:
        return show_places(l, m.ngeom, m.geom_bodyid, own.geom_sameframe, own.geom_pos, d.geom_xpos);
      case Shown::geom_xmat: return show_turns(l, m.ngeom, m.geom_bodyid, own.geom_quat, d.geom_xmat);
      case Shown::ten_length: return write(w_.ten_length, d.ten_length, m.ntendon);
      case Shown::ten_velocity: return write(w_.ten_velocity, d.ten_velocity, m.ntendon);
      case Shown::ncon: return void(d.ncon = contacts(l));
      case Shown::subtree_com: return bodies(w_.subtree_com, d.subtree_com, 3);
      case Shown::cinert: return bodies(w_.cinert, d.cinert, 10);
      case Shown::cvel: return bodies(w_.cvel, d.cvel, 6);
      case Shown::cdof: return write(w_.cdof, d.cdof, 6 * m.nv);
      case Shown::qfrc_actuator: return write(w_.qfrc_actuator, d.qfrc_actuator, m.nv);
      case Shown::actuator_force: return write(w_.actuator_force, d.actuator_force, m.nout);
      case Shown::qfrc_constraint: return write(w_.qfrc_constraint, d.qfrc_constraint, m.nv);
      case Shown::cfrc_ext: return write(w_.cfrc_ext, d.cfrc_ext, 6 * m.nbody);
      case Shown::act_dot: return write(w_.act_dot, d.act_dot, m.na);
      case Shown::actuator_length: return write(w_.actuator_length, d.actuator_length, m.nout);
      case Shown::actuator_velocity: return write(w_.actuator_velocity, d.actuator_velocity, m.nout);
      case Shown::qfrc_bias: return write(w_.qfrc_bias, d.qfrc_bias, m.nv);
      case Shown::qfrc_passive: return write(w_.qfrc_passive, d.qfrc_passive, m.nv);
      case Shown::cacc: return bodies(w_.cacc, d.cacc, 6);
      case Shown::cfrc_int: return bodies(w_.cfrc_int, d.cfrc_int, 6);
    }
  }

  // Writes positions and orientations of things that are fixed to bodies.
  void show_places(int l, mjtSize n, const int* bodies, const mjtByte* frames, const mjtNum* local, mjtNum* out) const {
    for (mjtSize i = 0; i < n; ++i) place_of(w_, bodies[i], frames[i], local + 3 * i, l, out + 3 * i);
  }

  void show_turns(int l, mjtSize n, const int* bodies, const mjtNum* local, mjtNum* out) const {
    mjtNum mat[9], turn[9];
    for (mjtSize i = 0; i < n; ++i) {
      take(w_.xmat + 9 * bodies[i], 9, l, mat), mju_quat2Mat(turn, local + 4 * i);
      mju_mulMatMat(out + 9 * i, mat, turn, 3, 3, 3);
    }
  }

  // Returns the number of contacts that a lane has.
  int contacts(int l) const {
    int count = 0;
    for (int a = 0; a < w_.actives; ++a) {
      const Block& b = plan_.blocks[w_.active[a]];
      count += is_contact(b) && bits(holds(b, w_.dist[w_.active[a]])) >> l & 1;
    }
    return count;
  }

  const Plan& plan_;
  Work<V> w_;
};

}  // namespace
}  // namespace headrace::lanes
