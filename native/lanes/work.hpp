// The memory of a step: arrays by MuJoCo's names, in which each element is a number of every lane.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "core.hpp"
#include "math.hpp"
#include "plan.hpp"

namespace headrace::lanes {
namespace {

// Copy numbers of one lane, out of the lane and into it.
template <class V>
void take(const V* from, int n, int l, mjtNum* to) {
  for (int i = 0; i < n; ++i) to[i] = lane(from[i], l);
}
template <class V>
void put(const mjtNum* from, int n, int l, V* to) {
  for (int i = 0; i < n; ++i) lane(to[i], l) = from[i];
}

template <class V>
struct Work {
  using M = typename V::M;

  explicit Work(const Plan& plan);

  // The state and the inputs, one after the other.
  V *qpos, *qvel, *act, *ctrl, *qacc_warmstart, *mocap_pos, *mocap_quat;
  V* before;                // the state at a step's beginning, in the same order as far as `mocap_pos`
  double time[V::width], time_before[V::width];
  V* owned[kOwnFields];     // numbers of the lanes' models, where models differ in them; else null
  V *qfrc_applied, *xfrc_applied;  // if somebody applies forces

  // Positions of all bodies by their numbers, and of the plan's geoms by theirs.
  V *xpos, *xquat, *xmat, *xipos, *ximat, *xanchor, *xaxis, *subtree_com, *cinert, *cdof, *ten_length, *ten_velocity,
      *ten_J, *geom_xpos, *geom_xmat, *sensordata;

  // Inertia, in the tree's pattern; D⁻¹ of LᵀDL.
  V *crb, *mass, *factor, *inverse_diagonal;

  // Velocities and forces.
  V *cvel, *bias_acc, *cfrc, *qfrc_bias, *qfrc_passive, *qfrc_actuator, *qfrc_smooth, *qfrc_constraint;
  V *actuator_force, *actuator_length, *actuator_velocity, *act_dot, *qacc_smooth, *qacc;

  // Constraints, of all blocks one after the other.
  Grip<V>* grip;
  V *dist, *D, *J, *aref, *jar, *Jv, *force, *efc_pos, *contact_pos, *contact_frame;
  int* active;     // numbers of blocks in which a constraint holds in some lane
  int* pending;    // those of them that hold in a lane that the solver has not finished
  int* matched;    // contacts that a sensor counts, and of one lane those that it shows
  int* chosen;
  int actives = 0, pendings = 0;
  M constrained;   // lanes with a constraint
  M bad;           // lanes whose step mj_step makes

  // The solver.
  V *Ma, *grad, *search, *Mv, *hessian, *hessian_inverse;
  Pattern coupled;

  // Each lane's model and data, for MuJoCo's own functions; the end of a step overwrites their results in the data.
  const mjModel* models[V::width];
  mjData* data[V::width];
  std::uint32_t live = 0;    // lanes with a simulation that can be stepped
  std::uint32_t placed = 0;  // lanes whose geoms MuJoCo has placed

  // Integration.
  V *first_qpos, *first_qvel, *first_act, *sum_qvel, *sum_qacc, *sum_act, *stage_qvel, *change;

  V *cacc, *cfrc_ext, *cfrc_int;  // accelerations of bodies, forces of contacts on them, and between them
  V* last_qvel;                   // the velocities of the last `forward`, if these are shown

  // Returns the numbers of a field, of the lanes' models; null if they do not differ.
  const V* own(Own field) const { return kDiffer ? owned[field] : nullptr; }

 private:
  struct Free {
    void operator()(V* p) const { ::operator delete(p, std::align_val_t(64)); }
  };

  template <class Take>
  void lay_out(const Plan& plan, Take take);

  std::unique_ptr<V, Free> memory_;
};

// Calls take(pointer, elements) for each array.
template <class V>
template <class Take>
void Work<V>::lay_out(const Plan& plan, Take take) {
  const mjModel& m = *plan.model;
  const auto nq = m.nq, nv = m.nv, na = m.na, nu = m.nu, nbody = m.nbody, nmocap = m.nmocap;
  const auto n = static_cast<mjtSize>(plan.mass.elements), blocks = static_cast<mjtSize>(plan.blocks.size());
  const auto geoms = static_cast<mjtSize>(plan.geoms.size()), rows = static_cast<mjtSize>(plan.rows);
  take(qpos, nq), take(qvel, nv), take(act, na), take(ctrl, nu), take(qacc_warmstart, nv);
  take(mocap_pos, 3 * nmocap), take(mocap_quat, 4 * nmocap), take(before, nq + 2 * nv + na + nu);
  for (int f = 0; f < kOwnFields; ++f) take(owned[f], plan.own[f] ? kOwn[f].used * m.*kOwn[f].rows : 0);
  take(qfrc_applied, plan.applied ? nv : 0), take(xfrc_applied, plan.applied ? 6 * nbody : 0);
  take(xpos, 3 * nbody), take(xquat, 4 * nbody), take(xmat, 9 * nbody), take(xipos, 3 * nbody), take(ximat, 9 * nbody);
  take(xanchor, 3 * m.njnt), take(xaxis, 3 * m.njnt), take(subtree_com, 3 * nbody), take(cinert, 10 * nbody);
  take(cdof, 6 * nv), take(ten_length, m.ntendon), take(ten_velocity, m.ntendon), take(ten_J, m.nJten),
      take(sensordata, m.nsensordata), take(geom_xpos, 3 * geoms), take(geom_xmat, 9 * geoms);
  take(crb, 10 * nbody), take(mass, n), take(factor, n), take(inverse_diagonal, nv);
  take(cvel, 6 * nbody), take(bias_acc, 6 * nbody), take(cfrc, 6 * nbody), take(qfrc_bias, nv), take(qfrc_passive, nv);
  take(qfrc_actuator, nv), take(qfrc_smooth, nv), take(qfrc_constraint, nv), take(actuator_force, m.nout);
  take(actuator_length, m.nout), take(actuator_velocity, m.nout);
  take(act_dot, na), take(qacc_smooth, nv), take(qacc, nv);
  take(dist, blocks), take(D, blocks), take(J, plan.jacobian), take(aref, rows), take(jar, rows), take(Jv, rows);
  take(force, rows), take(efc_pos, rows), take(contact_pos, 3 * blocks), take(contact_frame, 9 * blocks);
  take(Ma, nv), take(grad, nv), take(search, nv), take(Mv, nv), take(hessian, nv * (nv + 1) / 2),
      take(hessian_inverse, nv);
  take(first_qpos, nq), take(first_qvel, nv), take(first_act, na), take(sum_qvel, nv), take(sum_qacc, nv),
      take(sum_act, na);
  take(stage_qvel, nv), take(change, nv);
  take(cacc, 6 * nbody), take(cfrc_ext, 6 * nbody), take(cfrc_int, 6 * nbody);
  take(last_qvel, plan.inner_forces ? nv : 0);
}

template <class V>
Work<V>::Work(const Plan& plan) {
  mjtSize size = 0;
  lay_out(plan, [&](V*&, mjtSize n) { size += n; });
  const auto blocks = plan.blocks.size();
  size += static_cast<mjtSize>(blocks * sizeof(Grip<V>) / sizeof(V));
  size += static_cast<mjtSize>(4 * blocks * sizeof(int) / sizeof(V) + 1);  // for `active` and the next three
  memory_.reset(static_cast<V*>(::operator new(static_cast<std::size_t>(size) * sizeof(V), std::align_val_t(64))));
  V* free = memory_.get();
  for (mjtSize i = 0; i < size; ++i) free[i] = V(0);
  lay_out(plan, [&](V*& array, mjtSize n) { array = free, free += n; });
  for (int f = 0; f < kOwnFields; ++f)
    if (!plan.own[f]) owned[f] = nullptr;
  grip = reinterpret_cast<Grip<V>*>(free);
  active = reinterpret_cast<int*>(grip + blocks), pending = active + blocks;
  matched = pending + blocks, chosen = matched + blocks;
  constrained = bad = V(0) < V(0);
}

// Return numbers of the model from place i of a field: each lane's own where they differ, and else the plan's.
template <class V>
inline V number(const Work<V>& w, Own field, int i, double plan) {
  const V* own = w.own(field);
  return own ? own[i] : V(plan);
}
template <class V>
inline V3<V> numbers3(const Work<V>& w, Own field, int i, const double* plan) {
  const V* own = w.own(field);
  return own ? load3(own + i) : constant3<V>(plan);
}

}  // namespace
}  // namespace headrace::lanes
