// Velocities, and all forces but those of constraints: mj_comVel, mj_rne, mj_passive, mj_fwdActuation,
// mj_fwdAcceleration.
#pragma once

#include "kinematics.hpp"
#include "linear.hpp"

namespace headrace::lanes {
namespace {

// A body's velocity, and its acceleration if no degree of freedom accelerates. The latter takes the motion of
// velocities' axes, which follows from `qvel`, times `turning`.
template <class V>
void com_vel(const Plan& plan, const Body& body, Work<V>& w, const V* qvel, const V* turning) {
  auto vel = load6(w.cvel + 6 * body.parent), acc = load6(w.bias_acc + 6 * body.parent);
  for (int j = body.first_joint; j < body.first_joint + body.joints; ++j) {
    const Joint& joint = plan.joints[j];
    int i = joint.dof;
    if (joint.type == mjJNT_FREE)
      for (int k = 0; k < 3; ++k, ++i) vel = fma(qvel[i], load6(w.cdof + 6 * i), vel);
    const int turns = joint.type == mjJNT_FREE || joint.type == mjJNT_BALL ? 3 : 1;
    const auto before = vel;  // the axes of one joint turn with the body on which it stands
    for (int k = 0; k < turns; ++k, ++i) {
      const auto cdof = load6(w.cdof + 6 * i);
      acc = fma(turning[i], cross_motion(before, cdof), acc);
      vel = fma(qvel[i], cdof, vel);
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

// The force of a still or blowing fluid on a body's box (mj_inertiaBoxFluidModel), about its tree's centre of mass.
template <class V>
Spatial<V> fluid_force(const Plan& plan, const Body& b, const Work<V>& w) {
  const auto mat = load9(w.ximat + 9 * b.id);
  const auto arm = load3(w.xipos + 3 * b.id) - load3(w.subtree_com + 3 * b.root);
  const auto vel = load6(w.cvel + 6 * b.id);
  const auto turn = transposed(mat, vel.r),
             move = transposed(mat, (vel.t + cross(vel.r, arm)) - constant3<V>(plan.wind));
  const double *box = b.box, d = (box[0] + box[1] + box[2]) / 3, pi = 3.14159265358979323846;
  V torque[3] = {turn.x, turn.y, turn.z}, force[3] = {move.x, move.y, move.z};
  for (int i = 0; i < 3; ++i) {
    const double x = box[i], y = box[(i + 1) % 3], z = box[(i + 2) % 3];
    const double lift = 0.5 * plan.density * y * z, whirl = plan.density * x * (y * y * y * y + z * z * z * z) / 64;
    force[i] = -(fma(V(lift), abs(force[i]), V(3 * pi * d * plan.viscosity)) * force[i]);
    torque[i] = -(fma(V(whirl), abs(torque[i]), V(pi * d * d * d * plan.viscosity)) * torque[i]);
  }
  const auto push = mat * load3(force);
  return {mat * load3(torque) + cross(arm, push), push};
}

template <class V>
void com_vels(const Plan& plan, Work<V>& w) {
  const V3<V> none{V(0), V(0), V(0)};
  for (const Body& b : plan.fixed) store6(w.bias_acc + 6 * b.id, Spatial<V>{none, -constant3<V>(plan.gravity)});
  for (const Body& b : plan.bodies) com_vel(plan, b, w, w.qvel, w.qvel);
}

// Computes velocities, and qfrc_bias: gravity, Coriolis and centrifugal forces, less the fluid's forces.
template <class V>
void bias_forces(const Plan& plan, Work<V>& w) {
  const bool fluid = plan.density != 0 || plan.viscosity != 0;
  com_vels(plan, w);
  for (const Body& b : plan.bodies) {
    auto force = force_on(b, load6(w.bias_acc + 6 * b.id), w);
    if (fluid && b.mass >= kMinValue) force = force - fluid_force(plan, b, w);
    store6(w.cfrc + 6 * b.id, force);
  }
  for (auto b = plan.bodies.rbegin(); b != plan.bodies.rend(); ++b) {
    const auto force = load6(w.cfrc + 6 * b->id);
    for (int i = b->first_dof; i < b->first_dof + b->dofs; ++i) w.qfrc_bias[i] = dot(load6(w.cdof + 6 * i), force);
    if (b->parent != 0) store6(w.cfrc + 6 * b->parent, load6(w.cfrc + 6 * b->parent) + force);
  }
}

template <class V>
void push(const Combination& c, const Plan& plan, const Work<V>& w, V force, V* qfrc) {
  for (const auto& term : c.terms) qfrc[term.dof] = fma(coefficient(term, plan, w), force, qfrc[term.dof]);
}

template <class V>
void passive_forces(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < plan.mass.size; ++i) w.qfrc_passive[i] = -(V(plan.damping[i]) * w.qvel[i]);
  for (const Joint& j : plan.joints)
    if (plan.own_stiffness || j.stiffness != 0) {
      const V stiffness = plan.own_stiffness ? w.jnt_stiffness[&j - plan.joints.data()] : V(j.stiffness);
      w.qfrc_passive[j.dof] = fnma(stiffness, w.qpos[j.qpos] - V(j.spring_ref), w.qfrc_passive[j.dof]);
    }
  for (std::size_t t = 0; t < plan.tendons.size(); ++t) {
    const auto& tendon = plan.tendons[t];
    if (tendon.stiffness == 0 && tendon.damping == 0) continue;
    const V length = w.ten_length[t], low(tendon.spring_low), high(tendon.spring_high);
    const V stretch = select(length > high, length - high, select(length < low, length - low, V(0)));
    push(tendon, plan, w, -fma(V(tendon.stiffness), stretch, V(tendon.damping) * w.ten_velocity[t]), w.qfrc_passive);
  }
}

template <class V>
V clipped(V x, const double (&range)[2]) {
  return min(max(x, V(range[0])), V(range[1]));
}

// Returns a state's value after a step of the integrator (mj_nextActivation).
template <class V>
V next_activation(const Plan& plan, const Actuator& a, V act, V act_dot) {
  const V next = fma(act_dot, a.dynamics == mjDYN_FILTEREXACT ? V(a.tau * a.decay) : V(plan.timestep), act);
  return a.act_limited ? clipped(next, a.act_range) : next;
}

template <class V>
V control(const Plan& plan, const Actuator& a, const Work<V>& w) {
  const V ctrl = w.ctrl[a.ctrl];
  return plan.clamps_ctrl && a.ctrl_limited ? clipped(ctrl, a.ctrl_range) : ctrl;
}

// Returns the number that the gain multiplies; if an actuator has a state, its derivative is known.
template <class V>
V input_of(const Plan& plan, const Actuator& a, const Work<V>& w) {
  if (a.act < 0) return control(plan, a, w);
  return a.act_early ? next_activation(plan, a, w.act[a.act], w.act_dot[a.act]) : w.act[a.act];
}

template <class V>
void actuator_forces(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < plan.mass.size; ++i) w.qfrc_actuator[i] = V(0);
  int number = 0;
  for (const Actuator& a : plan.actuators) {
    if (a.act >= 0) {
      const V ctrl = control(plan, a, w);
      w.act_dot[a.act] = a.dynamics == mjDYN_INTEGRATOR ? ctrl : (ctrl - w.act[a.act]) / V(a.tau);
    }
    V gain(a.gain[0]), bias(a.bias[0]);
    if (a.gain[1] != 0 || a.gain[2] != 0 || a.bias[1] != 0 || a.bias[2] != 0) {
      const V length = length_of(a.transmission, plan, w), velocity = velocity_of(a.transmission, plan, w);
      gain = fma(V(a.gain[2]), velocity, fma(V(a.gain[1]), length, gain));
      bias = fma(V(a.bias[2]), velocity, fma(V(a.bias[1]), length, bias));
    }
    V force = fma(gain, input_of(plan, a, w), bias);
    if (a.force_limited) force = clipped(force, a.force_range);
    w.actuator_force[number++] = force;
    push(a.transmission, plan, w, force, w.qfrc_actuator);
  }
  for (const auto& limit : plan.force_limits)
    w.qfrc_actuator[limit.dof] = clipped(w.qfrc_actuator[limit.dof], limit.range);
}

// Computes actuators' lengths and velocities, for those who read them.
template <class V>
void transmissions(const Plan& plan, Work<V>& w) {
  int number = 0;
  for (const Actuator& a : plan.actuators) {
    w.actuator_length[number] = length_of(a.transmission, plan, w);
    w.actuator_velocity[number++] = velocity_of(a.transmission, plan, w);
  }
}

// Computes the accelerations without constraints.
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
