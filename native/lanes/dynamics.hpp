// Velocities, and all forces but those of constraints: mj_comVel, mj_rne, mj_passive, mj_fwdActuation,
// mj_fwdAcceleration.
#pragma once

#include "linear.hpp"

namespace headrace::lanes {
namespace {

// a body's velocity, and its acceleration if no degree of freedom accelerates
template <class V>
void com_vel(const Plan& plan, const Body& body, Work<V>& w) {
  auto vel = load6(w.cvel + 6 * body.parent), acc = load6(w.bias_acc + 6 * body.parent);
  for (int j = body.first_joint; j < body.first_joint + body.joints; ++j) {
    const Joint& joint = plan.joints[j];
    int i = joint.dof;
    if (joint.type == mjJNT_FREE)
      for (int k = 0; k < 3; ++k, ++i) vel = fma(w.qvel[i], load6(w.cdof + 6 * i), vel);
    const int turns = joint.type == mjJNT_FREE || joint.type == mjJNT_BALL ? 3 : 1;
    const auto before = vel;  // the axes of one joint turn with what it stands on
    for (int k = 0; k < turns; ++k, ++i) {
      const auto cdof = load6(w.cdof + 6 * i);
      acc = fma(w.qvel[i], cross_motion(before, cdof), acc);
      vel = fma(w.qvel[i], cdof, vel);
    }
  }
  store6(w.cvel + 6 * body.id, vel), store6(w.bias_acc + 6 * body.id, acc);
}

template <class V>
Spatial<V> force_on(const Body& b, const Spatial<V>& acc, const Work<V>& w) {
  const V* inertia = w.cinert + 10 * b.id;
  const auto vel = load6(w.cvel + 6 * b.id);
  return inertia_times(inertia, acc) + cross_force(vel, inertia_times(inertia, vel));
}

// velocities, and qfrc_bias: gravity, Coriolis and centrifugal forces
template <class V>
void bias_forces(const Plan& plan, Work<V>& w) {
  const V3<V> none{V(0), V(0), V(0)};
  for (const int b : plan.fixed) store6(w.bias_acc + 6 * b, Spatial<V>{none, -constant3<V>(plan.gravity)});
  for (const Body& b : plan.bodies) {
    com_vel(plan, b, w);
    store6(w.cfrc + 6 * b.id, force_on(b, load6(w.bias_acc + 6 * b.id), w));
  }
  for (auto b = plan.bodies.rbegin(); b != plan.bodies.rend(); ++b) {
    const auto force = load6(w.cfrc + 6 * b->id);
    for (int i = b->first_dof; i < b->first_dof + b->dofs; ++i) w.qfrc_bias[i] = dot(load6(w.cdof + 6 * i), force);
    if (b->parent != 0) store6(w.cfrc + 6 * b->parent, load6(w.cfrc + 6 * b->parent) + force);
  }
}

template <class V>
V length_of(const Combination& c, const V* qpos) {
  V sum(0);
  for (const auto& term : c.terms) sum = fma(V(term.coefficient), qpos[term.qpos], sum);
  return sum;
}

template <class V>
V velocity_of(const Combination& c, const V* qvel) {
  V sum(0);
  for (const auto& term : c.terms) sum = fma(V(term.coefficient), qvel[term.dof], sum);
  return sum;
}

template <class V>
void push(const Combination& c, V force, V* qfrc) {
  for (const auto& term : c.terms) qfrc[term.dof] = fma(V(term.coefficient), force, qfrc[term.dof]);
}

template <class V>
void passive_forces(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < plan.mass.size; ++i) w.qfrc_passive[i] = -(V(plan.damping[i]) * w.qvel[i]);
  for (const Joint& j : plan.joints)
    if (j.stiffness != 0) w.qfrc_passive[j.dof] = fnma(V(j.stiffness), w.qpos[j.qpos] - V(j.spring_ref), w.qfrc_passive[j.dof]);
  for (const auto& tendon : plan.tendons) {
    if (tendon.stiffness == 0 && tendon.damping == 0) continue;
    const V length = length_of(tendon, w.qpos), low(tendon.spring_low), high(tendon.spring_high);
    const V stretch = select(length > high, length - high, select(length < low, length - low, V(0)));
    push(tendon, -fma(V(tendon.stiffness), stretch, V(tendon.damping) * velocity_of(tendon, w.qvel)), w.qfrc_passive);
  }
}

template <class V>
V clipped(V x, const double (&range)[2]) { return min(max(x, V(range[0])), V(range[1])); }

// a state's value after a step of the integrator (mj_nextActivation)
template <class V>
V next_activation(const Plan& plan, const Actuator& a, V act, V act_dot) {
  const V next = fma(act_dot, a.dynamics == mjDYN_FILTEREXACT ? V(a.tau * a.decay) : V(plan.timestep), act);
  return a.act_limited ? clipped(next, a.act_range) : next;
}

template <class V>
void actuator_forces(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < plan.mass.size; ++i) w.qfrc_actuator[i] = V(0);
  int number = 0;
  for (const Actuator& a : plan.actuators) {
    V ctrl = w.ctrl[a.ctrl];
    if (plan.clamps_ctrl && a.ctrl_limited) ctrl = clipped(ctrl, a.ctrl_range);
    V input = ctrl;
    if (a.act >= 0) {
      V& act_dot = w.act_dot[a.act];
      const V act = w.act[a.act];
      act_dot = a.dynamics == mjDYN_INTEGRATOR ? ctrl : (ctrl - act) / V(a.tau);
      input = a.act_early ? next_activation(plan, a, act, act_dot) : act;
    }
    V gain(a.gain[0]), bias(a.bias[0]);
    if (a.gain[1] != 0 || a.gain[2] != 0 || a.bias[1] != 0 || a.bias[2] != 0) {
      const V length = length_of(a.transmission, w.qpos), velocity = velocity_of(a.transmission, w.qvel);
      gain = fma(V(a.gain[2]), velocity, fma(V(a.gain[1]), length, gain));
      bias = fma(V(a.bias[2]), velocity, fma(V(a.bias[1]), length, bias));
    }
    V force = fma(gain, input, bias);
    if (a.force_limited) force = clipped(force, a.force_range);
    w.actuator_force[number++] = force;
    push(a.transmission, force, w.qfrc_actuator);
  }
  for (const auto& limit : plan.force_limits)
    w.qfrc_actuator[limit.dof] = min(max(w.qfrc_actuator[limit.dof], V(limit.low)), V(limit.high));
}

// what would happen without constraints
template <class V>
void smooth_acceleration(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < plan.mass.size; ++i) {
    w.qfrc_smooth[i] = (w.qfrc_passive[i] - w.qfrc_bias[i]) + w.qfrc_actuator[i];
    w.qacc_smooth[i] = w.qfrc_smooth[i];
  }
  solve(plan.mass, w.factor, w.inverse_diagonal, w.qacc_smooth);
}

}  // namespace
}  // namespace headrace::lanes
