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

// The force of a still or blowing fluid on a body's box (mj_inertiaBoxFluidModel), about its tree's centre of mass; the
// box's sides are the same in all lanes, or each lane's own.
template <class V, class T>
Spatial<V> fluid_force(const Plan& plan, const Body& b, const Work<V>& w, const T (&box)[3]) {
  const auto mat = load9(w.ximat + 9 * b.id);
  const auto arm = load3(w.xipos + 3 * b.id) - load3(w.subtree_com + 3 * b.root);
  const auto vel = load6(w.cvel + 6 * b.id);
  const auto turn = transposed(mat, vel.r),
             move = transposed(mat, (vel.t + cross(vel.r, arm)) - constant3<V>(plan.wind));
  const double pi = 3.14159265358979323846;
  const T d = (box[0] + box[1] + box[2]) / T(3), density(plan.density), viscosity(plan.viscosity);
  V torque[3] = {turn.x, turn.y, turn.z}, force[3] = {move.x, move.y, move.z};
  for (int i = 0; i < 3; ++i) {
    const T x = box[i], y = box[(i + 1) % 3], z = box[(i + 2) % 3];
    const T lift = T(0.5) * density * y * z, whirl = density * x * (y * y * y * y + z * z * z * z) / T(64);
    force[i] = -(fma(V(lift), abs(force[i]), V(T(3 * pi) * d * viscosity)) * force[i]);
    torque[i] = -(fma(V(whirl), abs(torque[i]), V(T(pi) * d * d * d * viscosity)) * torque[i]);
  }
  const auto push = mat * load3(force);
  return {mat * load3(torque) + cross(arm, push), push};
}

// The same, where the lanes' masses or inertias differ.
template <class V>
[[gnu::noinline]] Spatial<V> own_fluid_force(const Plan& plan, const Body& b, const Work<V>& w) {
  const auto about = numbers3(w, kBodyInertia, 3 * b.id, b.inertia);
  const V heavy = mass(b, w), trace = about.x + about.y + about.z;
  const auto none = heavy < V(kMinValue);
  V box[3] = {about.x, about.y, about.z};
  for (V& x : box)
    x = select(none, V(0), sqrt(max(V(kMinValue), fnma(V(2), x, trace)) / select(none, V(1), heavy) * V(6)));
  return fluid_force(plan, b, w, box);
}

// The force that somebody applies to a body, about its tree's centre of mass.
template <class V>
Spatial<V> applied_force(const Body& b, const Work<V>& w) {
  const auto force = load3(w.xfrc_applied + 6 * b.id), torque = load3(w.xfrc_applied + 6 * b.id + 3);
  const auto arm = load3(w.xipos + 3 * b.id) - load3(w.subtree_com + 3 * b.root);
  return {torque + cross(arm, force), force};
}

template <class V>
void com_vels(const Plan& plan, Work<V>& w) {
  const V3<V> none{V(0), V(0), V(0)};
  for (const Body& b : plan.fixed) store6(w.bias_acc + 6 * b.id, Spatial<V>{none, -constant3<V>(plan.gravity)});
  for (const Body& b : plan.bodies) com_vel(plan, b, w, w.qvel, w.qvel);
}

// Calls visit with each degree of freedom, and with what acts on it of the forces on bodies in `w.cfrc`.
template <class V, class Visit>
void project_forces(const Plan& plan, Work<V>& w, Visit visit) {
  for (auto b = plan.bodies.rbegin(); b != plan.bodies.rend(); ++b) {
    const auto force = load6(w.cfrc + 6 * b->id);
    for (int i = b->first_dof; i < b->first_dof + b->dofs; ++i) visit(i, dot(load6(w.cdof + 6 * i), force));
    if (b->parent != 0) store6(w.cfrc + 6 * b->parent, load6(w.cfrc + 6 * b->parent) + force);
  }
}

// Computes velocities, and qfrc_bias: gravity, Coriolis and centrifugal forces, less the fluid's forces.
template <class V>
void bias_forces(const Plan& plan, Work<V>& w) {
  const bool fluid = plan.density != 0 || plan.viscosity != 0;
  com_vels(plan, w);
  for (const Body& b : plan.bodies) {
    auto force = force_on(b, load6(w.bias_acc + 6 * b.id), w);
    if (fluid && (w.own(kBodyMass) || w.own(kBodyInertia))) force = force - own_fluid_force(plan, b, w);
    else if (fluid && b.mass >= kMinValue) force = force - fluid_force(plan, b, w, b.box);
    store6(w.cfrc + 6 * b.id, force);
  }
  project_forces(plan, w, [&](int i, V force) { w.qfrc_bias[i] = force; });
}

template <class V>
void push(const Combination& c, const Work<V>& w, V force, V* qfrc) {
  for (const auto& term : c.terms) qfrc[term.dof] = fma(coefficient(term, w), force, qfrc[term.dof]);
}

template <class V>
void passive_forces(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < plan.mass.size; ++i)
    w.qfrc_passive[i] = -(number(w, kDofDamping, i, plan.damping[i]) * w.qvel[i]);
  for (const Joint& j : plan.joints)
    if (w.own(kJntStiffness) || j.stiffness != 0) {
      const V stiffness = number(w, kJntStiffness, static_cast<int>(&j - plan.joints.data()), j.stiffness);
      const V stretch = w.qpos[j.qpos] - number(w, kQposSpring, j.qpos, j.spring_ref);
      w.qfrc_passive[j.dof] = fnma(stiffness, stretch, w.qfrc_passive[j.dof]);
    }
  for (std::size_t t = 0; t < plan.tendons.size(); ++t) {
    const auto& tendon = plan.tendons[t];
    if (tendon.stiffness == 0 && tendon.damping == 0) continue;
    const V length = w.ten_length[t], low(tendon.spring_low), high(tendon.spring_high);
    const V stretch = select(length > high, length - high, select(length < low, length - low, V(0)));
    push(tendon, w, -fma(V(tendon.stiffness), stretch, V(tendon.damping) * w.ten_velocity[t]), w.qfrc_passive);
  }
}

template <class V>
V clipped(V x, const double (&range)[2]) {
  return min(max(x, V(range[0])), V(range[1]));
}

template <class V>
struct Range {
  V low, high;
};

template <class V>
V clipped(V x, const Range<V>& range) {
  return min(max(x, range.low), range.high);
}

template <class V>
Range<V> range_of(const Work<V>& w, Own field, int row, const double (&range)[2]) {
  return {number(w, field, 2 * row, range[0]), number(w, field, 2 * row + 1, range[1])};
}

// Returns an actuator's gain or bias: constant, by length, by velocity.
template <class V>
V3<V> gain_of(const Actuator& a, const Work<V>& w) {
  const V* own = w.own(kActuatorGainprm);
  if (!own) return constant3<V>(a.gain);
  return a.affine[0] ? load3(own + 3 * a.id) : V3<V>{own[3 * a.id], V(0), V(0)};
}
template <class V>
V3<V> bias_of(const Actuator& a, const Work<V>& w) {
  const V* own = w.own(kActuatorBiasprm);
  return own && a.affine[1] ? load3(own + 3 * a.id) : constant3<V>(a.bias);
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
  if (!plan.clamps_ctrl || !a.ctrl_limited) return ctrl;
  return clipped(ctrl, range_of(w, kActuatorCtrlrange, a.ctrl, a.ctrl_range));
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
  for (const Actuator& a : plan.actuators) {
    if (a.act >= 0) {
      const V ctrl = control(plan, a, w);
      w.act_dot[a.act] = a.dynamics == mjDYN_INTEGRATOR ? ctrl : (ctrl - w.act[a.act]) / V(a.tau);
    }
    const auto gains = gain_of(a, w), biases = bias_of(a, w);
    V gain = gains.x, bias = biases.x;
    if (a.by_state) {
      const V length = length_of(a.transmission, w), velocity = velocity_of(a.transmission, w);
      gain = fma(gains.z, velocity, fma(gains.y, length, gain));
      bias = fma(biases.z, velocity, fma(biases.y, length, bias));
    }
    V force = fma(gain, input_of(plan, a, w), bias);
    if (a.force_limited) force = clipped(force, range_of(w, kActuatorForcerange, a.id, a.force_range));
    w.actuator_force[a.id] = force;
    push(a.transmission, w, force, w.qfrc_actuator);
  }
  for (const auto& limit : plan.force_limits)
    w.qfrc_actuator[limit.dof] = clipped(w.qfrc_actuator[limit.dof], limit.range);
}

// Computes actuators' lengths and velocities, for those who read them.
template <class V>
void transmissions(const Plan& plan, Work<V>& w) {
  for (const Actuator& a : plan.actuators) {
    w.actuator_length[a.id] = length_of(a.transmission, w);
    w.actuator_velocity[a.id] = velocity_of(a.transmission, w);
  }
}

// Computes the accelerations without constraints.
template <class V>
void smooth_acceleration(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < plan.mass.size; ++i) {
    w.qfrc_smooth[i] = (w.qfrc_passive[i] - w.qfrc_bias[i]) + w.qfrc_actuator[i];
    if (plan.applied) w.qfrc_smooth[i] = w.qfrc_smooth[i] + w.qfrc_applied[i];
  }
  if (plan.applied) {
    for (const Body& b : plan.bodies) store6(w.cfrc + 6 * b.id, applied_force(b, w));
    project_forces(plan, w, [&](int i, V force) { w.qfrc_smooth[i] = w.qfrc_smooth[i] + force; });
  }
  std::copy_n(w.qfrc_smooth, plan.mass.size, w.qacc_smooth);
  solve(plan.mass, w.factor, w.inverse_diagonal, w.qacc_smooth);
}

}  // namespace
}  // namespace headrace::lanes
