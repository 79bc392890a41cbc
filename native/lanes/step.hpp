// One step for all lanes: mj_step's stages in their order, and the way of a state into a lane and out of it.
#pragma once

#include "core.hpp"
#include "inertia.hpp"
#include "integrate.hpp"
#include "kinematics.hpp"

namespace headrace::lanes {
namespace {

template <class V>
void forward(const Plan& plan, Work<V>& w, bool forces) {
  kinematics(plan, w);
  com_pos(plan, w);
  inertia_matrix(plan, w);
  factorize_inertia(plan, w);
  make_constraints(plan, w);
  bias_forces(plan, w);
  passive_forces(plan, w);
  actuator_forces(plan, w);
  smooth_acceleration(plan, w);
  constrain(plan, w, forces);
}

// the forces of contacts on bodies, about their trees' centres of mass (mj_rnePostConstraint)
template <class V>
void contact_forces(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < 6 * static_cast<int>(plan.model->nbody); ++i) w.cfrc_ext[i] = V(0);
  for (int a = 0; a < w.actives; ++a) {
    const Block& b = plan.blocks[w.active[a]];
    if (!is_contact(b)) continue;
    V local[kMostDim] = {V(0), V(0), V(0), V(0), V(0), V(0)};
    for (int r = 0; r < b.dim; ++r) local[r] = w.force[b.row + r];
    const auto frame = load9(w.contact_frame + 9 * w.active[a]);
    const auto force = transposed(frame, load3(local)), torque = transposed(frame, load3(local + 3));
    for (int side = 0; side < 2; ++side) {
      if (b.body[side] == 0) continue;
      const auto arm = load3(w.contact_pos + 3 * w.active[a]) - load3(w.subtree_com + 3 * b.root[side]);
      V* sum = w.cfrc_ext + 6 * b.body[side];
      store6(sum, fma(V(side == 0 ? -1 : 1), Spatial<V>{torque + cross(arm, force), force}, load6(sum)));
    }
  }
}

template <class V>
class Lanes final : public Core {
 public:
  using M = typename V::M;

  explicit Lanes(const Plan& plan) : plan_(plan), w_(plan) {
    place_fixed(plan_, w_);
    place_fixed_geoms(plan_, w_);
    write_constant_jacobians(plan_, w_);
  }

  int width() const override { return V::width; }

  std::uint32_t step(mjData* const* data, int count, int steps) override {
    for (int l = 0; l < V::width; ++l) load(l, *data[l < count ? l : 0]);
    w_.bad = V(0) < V(0);
    check(w_.ctrl, static_cast<int>(plan_.model->nu));
    for (int i = 0; i < steps; ++i) step_once(plan_.shows_forces && i + 1 == steps);
    if (plan_.shows_forces) contact_forces(plan_, w_);
    check_state();
    const std::uint32_t bad = bits(w_.bad) & ((std::uint32_t{1} << count) - 1);
    for (int l = 0; l < count; ++l)
      if (!(bad >> l & 1)) store(l, *data[l]);
    return bad;
  }

 private:
  void step_once(bool forces) {
    check_state();
    const bool stages = plan_.integrator == mjINT_RK4;
    forward(plan_, w_, stages ? false : forces || plan_.damped);
    check(w_.qacc, plan_.mass.size);
    if (stages) runge_kutta(plan_, w_, forces);
    else euler(plan_, w_);
  }

  void check_state() {
    check(w_.qpos, static_cast<int>(plan_.model->nq));
    check(w_.qvel, plan_.mass.size);
  }

  // what MuJoCo would warn of (mju_isBad)
  void check(const V* values, int n) {
    M good = V(0) == V(0);
    for (int i = 0; i < n; ++i) good = good & (abs(values[i]) <= V(1e10));
    w_.bad = w_.bad | ~good;
  }

  // calls visit(lanes, numbers, count) for what a state is
  template <class Visit>
  void each_state(const mjData& d, Visit visit) {
    const mjModel& m = *plan_.model;
    visit(w_.qpos, d.qpos, m.nq), visit(w_.qvel, d.qvel, m.nv), visit(w_.act, d.act, m.na);
    visit(w_.qacc_warmstart, d.qacc_warmstart, m.nv);
  }

  void load(int l, const mjData& d) {
    const mjModel& m = *plan_.model;
    const auto read = [l](V* to, const mjtNum* from, mjtSize n) { for (mjtSize i = 0; i < n; ++i) lane(to[i], l) = from[i]; };
    each_state(d, read);
    read(w_.time, &d.time, 1), read(w_.ctrl, d.ctrl, m.nu);
    read(w_.mocap_pos, d.mocap_pos, 3 * m.nmocap), read(w_.mocap_quat, d.mocap_quat, 4 * m.nmocap);
  }

  void store(int l, mjData& d) {
    const auto write = [l](const V* from, mjtNum* to, mjtSize n) { for (mjtSize i = 0; i < n; ++i) to[i] = lane(from[i], l); };
    each_state(d, write);
    d.time = lane(w_.time[0], l);
    for (const Shown shown : plan_.shown) show(shown, d, write);
    if (plan_.shows_kinematics) update_kinematics(d);
  }

  // positions and velocities of the new state, and the sensors that follow from them
  void update_kinematics(mjData& d) {
    const mjModel* m = plan_.model.get();
    d.flg_subtreevel = 0;  // else the sensors take the last state's for the present one's
    mj_fwdKinematics(m, &d);
    mj_sensorPos(m, &d);
    mj_comVel(m, &d);
    mj_sensorVel(m, &d);
  }

  template <class Write>
  void show(Shown shown, mjData& d, Write write) {
    const mjModel& m = *plan_.model;
    const auto bodies = [&](const V* from, mjtNum* to, int n) {
      for (const Body& b : plan_.bodies) write(from + n * b.id, to + n * b.id, n);
    };
    switch (shown) {
      case Shown::qacc: return write(w_.qacc, d.qacc, m.nv);
      case Shown::xpos: return bodies(w_.xpos, d.xpos, 3);
      case Shown::xquat: return bodies(w_.xquat, d.xquat, 4);
      case Shown::xmat: return bodies(w_.xmat, d.xmat, 9);
      case Shown::xipos: return bodies(w_.xipos, d.xipos, 3);
      case Shown::ximat: return bodies(w_.ximat, d.ximat, 9);
      case Shown::subtree_com: return bodies(w_.subtree_com, d.subtree_com, 3);
      case Shown::cinert: return bodies(w_.cinert, d.cinert, 10);
      case Shown::cvel: return bodies(w_.cvel, d.cvel, 6);
      case Shown::cdof: return write(w_.cdof, d.cdof, 6 * m.nv);
      case Shown::qfrc_actuator: return write(w_.qfrc_actuator, d.qfrc_actuator, m.nv);
      case Shown::actuator_force: return write(w_.actuator_force, d.actuator_force, m.nout);
      case Shown::qfrc_passive: return write(w_.qfrc_passive, d.qfrc_passive, m.nv);
      case Shown::qfrc_bias: return write(w_.qfrc_bias, d.qfrc_bias, m.nv);
      case Shown::qfrc_constraint: return write(w_.qfrc_constraint, d.qfrc_constraint, m.nv);
      case Shown::cfrc_ext: return write(w_.cfrc_ext, d.cfrc_ext, 6 * m.nbody);
      case Shown::act_dot: return write(w_.act_dot, d.act_dot, m.na);
    }
  }

  const Plan& plan_;
  Work<V> w_;
};

}  // namespace
}  // namespace headrace::lanes
