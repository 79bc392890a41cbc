// From accelerations to the next state: mj_Euler with damping taken implicitly, mj_implicit where it is fast, and
// mj_RungeKutta.
#pragma once

#include <algorithm>

#include "dynamics.hpp"
#include "inertia.hpp"
#include "solver.hpp"

namespace headrace::lanes {
namespace {

// Computes all that follows from a state: accelerations, and the derivatives of actuators' states.
template <class V>
void forward(const Plan& plan, Work<V>& w, bool forces);

// Returns a quaternion turned by a velocity in its own frame, for so long (mju_quatIntegrate).
template <class V>
Quat<V> turned(const Quat<V>& q, const V3<V>& velocity, V time) {
  V speed;
  const auto axis = normalized(velocity, &speed);
  return normalized(q) * rotation(axis, time * speed);
}

// Computes positions after a time under velocities (mj_integratePos).
template <class V>
void integrate_positions(const Plan& plan, V* qpos, const V* qvel) {
  const V h(plan.timestep);
  for (const Joint& joint : plan.joints) {
    V* q = qpos + joint.qpos;
    const V* v = qvel + joint.dof;
    if (joint.type == mjJNT_FREE) {
      for (int k = 0; k < 3; ++k) q[k] = fma(h, v[k], q[k]);
      q += 3, v += 3;
    }
    if (joint.type == mjJNT_FREE || joint.type == mjJNT_BALL) store4(q, turned(load4(q), load3(v), h));
    else q[0] = fma(h, v[0], q[0]);
  }
}

template <class V>
void advance(const Plan& plan, Work<V>& w, const V* qacc, const V* qvel, const V* act_dot) {
  for (const Actuator& a : plan.actuators)
    if (a.act >= 0) w.act[a.act] = next_activation(plan, a, w.act[a.act], act_dot[a.act]);
  for (int i = 0; i < plan.mass.size; ++i) {
    w.qvel[i] = fma(V(plan.timestep), qacc[i], w.qvel[i]);
    w.qacc_warmstart[i] = w.qacc[i];
  }
  integrate_positions(plan, w.qpos, qvel);
  for (double& time : w.time) time += plan.timestep;
}

// Subtracts from the inertia the derivatives of dampers' and actuators' forces by velocities, times the time step, as
// far as the tree's pattern has them (mjd_smooth_vel without bias forces).
template <class V>
void add_damping(const Plan& plan, Work<V>& w) {
  const V h(plan.timestep);
  const auto add = [&](const Combination& c, V damping) {
    for (const auto& a : c.terms)
      for (const auto& b : c.terms)
        if (plan.mass.columns[a.dof] >> b.dof & 1) {
          V& element = w.factor[plan.mass.at(a.dof, b.dof)];
          element = fma(h * damping * coefficient(a, w), coefficient(b, w), element);
        }
  };
  for (const auto& tendon : plan.tendons)
    if (tendon.damping != 0) add(tendon, V(tendon.damping));
  for (const Actuator& a : plan.actuators) {
    if (!a.damps) continue;
    V damping = -fma(gain_of(a, w).z, input_of(plan, a, w), bias_of(a, w).z);
    // A clipped force does not change; a joint's limit that clips a tendon's force does not count.
    const auto unless_clipped = [&](V x, const Range<V>& range) {
      damping = select((x <= range.low) | (x >= range.high), V(0), damping);
    };
    if (a.force_limited) unless_clipped(w.actuator_force[a.id], range_of(w, kActuatorForcerange, a.id, a.force_range));
    if (a.joint_limit >= 0) {
      const auto& limit = plan.force_limits[a.joint_limit];
      unless_clipped(w.qfrc_actuator[limit.dof], {V(limit.range[0]), V(limit.range[1])});
    }
    add(a.transmission, damping);
  }
}

// Solves A x = b beside A by elimination; the largest number of a column is its pivot.
template <class V, int n>
void solve_densely(V (&A)[n][n + 1]) {
  for (int k = 0; k < n; ++k) {
    for (int r = k + 1; r < n; ++r) {
      const auto swaps = abs(A[k][k]) < abs(A[r][k]);
      for (int c = k; c <= n; ++c) {
        const V upper = A[k][c], lower = A[r][c];
        A[k][c] = select(swaps, lower, upper), A[r][c] = select(swaps, upper, lower);
      }
    }
    const V inverse = V(1) / A[k][k];
    for (int c = k + 1; c <= n; ++c) A[k][c] = A[k][c] * inverse;
    for (int r = k + 1; r < n; ++r)
      for (int c = k + 1; c <= n; ++c) A[r][c] = fnma(A[r][k], A[k][c], A[r][c]);
  }
  for (int k = n - 1; k > 0; --k)
    for (int r = 0; r < k; ++r) A[r][n] = fnma(A[r][k], A[k][n], A[r][n]);
}

// Computes the acceleration of a body that floats by itself. Its rows get the derivatives of centrifugal and gyroscopic
// forces by its spin, which are not symmetric (MuJoCo's documentation, "Computation", "Gyroscopic derivatives for free
// bodies"). In the matrix, its rows become those of the identity.
template <class V>
void damp_spin(const Plan& plan, const Body& body, Work<V>& w) {
  const V h(plan.timestep), none(0);
  const int first = body.first_dof;
  const auto element = [&](int r, int c) -> V& {
    return w.factor[plan.mass.at(first + std::max(r, c), first + std::min(r, c))];
  };
  V A[6][7];
  for (int r = 0; r < 6; ++r) {
    for (int c = 0; c < 6; ++c) A[r][c] = element(r, c);
    A[r][6] = w.change[first + r];
  }
  const auto mat = load9(w.xmat + 9 * body.id);
  const auto spin = mat * load3(w.qvel + first + 3),
             arm = load3(w.subtree_com + 3 * body.id) - load3(w.xpos + 3 * body.id);
  const V* inertia = w.crb + 10 * body.id;
  const auto turn = [&](const V3<V>& by) { return inertia_times(inertia, Spatial<V>{by, {none, none, none}}).r; };
  const auto moves = cross(spin, arm), momentum = turn(spin);
  for (int c = 0; c < 3; ++c) {
    const auto by = column(mat, c);
    const auto force = inertia[9] * (cross(by, moves) + cross(spin, cross(by, arm)));
    const auto torque = cross(arm, force) + (cross(by, momentum) + cross(spin, turn(by)));
    V rows[6];
    store3(rows, force), store3(rows + 3, transposed(mat, torque));
    for (int r = 0; r < 6; ++r) A[r][3 + c] = fma(h, rows[r], A[r][3 + c]);
  }
  solve_densely(A);
  for (int r = 0; r < 6; ++r) {
    for (int c = 0; c <= r; ++c) element(r, c) = V(r == c);
    w.change[first + r] = A[r][6];
  }
}

template <class V>
void euler(const Plan& plan, Work<V>& w) {
  const int nv = plan.mass.size;
  if (!plan.damped) return advance(plan, w, w.qacc, w.qvel, w.act_dot);
  copy_matrix(plan.mass, w.mass, plan.mass, w.factor);
  for (int i = 0; i < nv; ++i) {
    V& diagonal = w.factor[plan.mass.at(i, i)];
    diagonal = fma(V(plan.timestep), number(w, kDofDamping, i, plan.damping[i]), diagonal);
  }
  if (plan.integrator == mjINT_IMPLICITFAST) add_damping(plan, w);
  for (int i = 0; i < nv; ++i) w.change[i] = w.qfrc_smooth[i] + w.qfrc_constraint[i];
  for (const Body& body : plan.spinning) damp_spin(plan, body, w);
  factorize_inertia(plan, w);
  solve(plan.mass, w.factor, w.inverse_diagonal, w.change);
  advance(plan, w, w.change, w.qvel, w.act_dot);
}

// A stage's angular velocities act from the stage's own orientation. For the sum, the inverse of the exponential's
// derivative brings them back to the first orientation (Munthe-Kaas, "Runge-Kutta methods on Lie groups", BIT 1998).
template <class V>
V3<V> brought_back(const V3<V>& turn, const V3<V>& velocity) {
  const V square = dot(turn, turn), one(1);
  const auto tiny = square < V(by_kind<V>(1e-8, 1e-2));  // the closed form cancels
  const V safe = select(tiny, one, square), angle = sqrt(safe);
  V sine, cosine;
  sincos(V(0.5) * angle, &sine, &cosine);
  const V series = fma(square, V(1.0 / 720), V(1.0 / 12));
  const V factor = select(tiny, series, one / safe - cosine / (V(2) * angle * sine));
  const auto once = cross(turn, velocity);
  return fma(factor, cross(turn, once), fma(V(0.5), once, velocity));
}

// Returns the velocities of a stage as the sum needs them; `change` are the velocities that led to the stage.
template <class V>
void stage_velocities(const Plan& plan, Work<V>& w) {
  const V h(plan.timestep);
  for (int i = 0; i < plan.mass.size; ++i) w.stage_qvel[i] = w.qvel[i];
  for (const Joint& joint : plan.joints) {
    if (joint.type != mjJNT_FREE && joint.type != mjJNT_BALL) continue;
    const int i = joint.dof + (joint.type == mjJNT_FREE ? 3 : 0);
    store3(w.stage_qvel + i, brought_back(h * load3(w.change + i), load3(w.qvel + i)));
  }
}

template <class V>
void runge_kutta(const Plan& plan, Work<V>& w, bool forces) {
  constexpr double kStage[3] = {0.5, 0.5, 1}, kWeight[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
  const mjModel& m = *plan.model;
  const int nq = static_cast<int>(m.nq), nv = static_cast<int>(m.nv), na = static_cast<int>(m.na);
  const V h(plan.timestep);
  const auto copy = [](V* to, const V* from, int n) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  };
  copy(w.first_qpos, w.qpos, nq), copy(w.first_qvel, w.qvel, nv), copy(w.first_act, w.act, na);
  copy(w.stage_qvel, w.qvel, nv);
  const auto add_up = [&](V weight, bool first) {
    const auto to = [&](V sum, V x) { return first ? weight * x : fma(weight, x, sum); };
    for (int i = 0; i < nv; ++i)
      w.sum_qvel[i] = to(w.sum_qvel[i], w.stage_qvel[i]), w.sum_qacc[i] = to(w.sum_qacc[i], w.qacc[i]);
    for (int i = 0; i < na; ++i) w.sum_act[i] = to(w.sum_act[i], w.act_dot[i]);
  };
  add_up(V(kWeight[0]), true);
  for (int stage = 0; stage < 3; ++stage) {
    const V a(kStage[stage]);
    for (int i = 0; i < nv; ++i) {
      w.change[i] = a * w.stage_qvel[i];
      w.qvel[i] = fma(h * a, w.qacc[i], w.first_qvel[i]);
      w.qacc_warmstart[i] = w.qacc[i];
    }
    copy(w.qpos, w.first_qpos, nq);
    integrate_positions(plan, w.qpos, w.change);
    for (int i = 0; i < na; ++i) w.act[i] = fma(h * a, w.act_dot[i], w.first_act[i]);
    forward(plan, w, forces && stage == 2);
    stage_velocities(plan, w);
    add_up(V(kWeight[stage + 1]), false);
  }
  copy(w.qpos, w.first_qpos, nq), copy(w.qvel, w.first_qvel, nv), copy(w.act, w.first_act, na);
  advance(plan, w, w.sum_qacc, w.sum_qvel, w.sum_act);
}

}  // namespace
}  // namespace headrace::lanes
