// Rows of constraints: which hold, their Jacobians, how stiff each is now, and the acceleration that it asks for
// (mj_makeConstraint, mj_makeImpedance, mj_referenceConstraint).
//
// A contact keeps the rows of its frame: normal, tangents, rotations. Those of a friction pyramid are sums of them,
// J₀ ± μₖ Jₖ, and are formed where they are needed. A constraint is computed where it holds in some lane; in the
// others its D is zero, so that it neither pushes nor costs.
#pragma once

#include "collision.hpp"
#include "dynamics.hpp"

namespace headrace::lanes {
namespace {

inline bool is_contact(const Block& b) { return b.kind >= Block::kPoint; }
inline bool is_friction(const Block& b) { return b.kind == Block::kFrictionLoss || b.kind == Block::kTendonFriction; }

// solimp at a violation (getimpedance)
template <class V>
V impedance(const Impedance& p, V violation) {
  if (p.flat) return V(0.5 * (p.dmin + p.dmax));
  const V x = abs(violation) / V(p.width), one(1);
  V low = x, high = one - x;
  for (int i = 1; i < p.power; ++i) low = low * x, high = high * (one - x);
  const V y = select(x <= V(p.midpoint), V(p.low) * low, fnma(V(p.high), high, one));
  const V inside = fma(y, V(p.dmax - p.dmin), V(p.dmin));
  return select(x >= one, V(p.dmax), select(x <= V(0), V(p.dmin), inside));
}

// Jacobians that never change
template <class V>
void write_constant_jacobians(const Plan& plan, Work<V>& w) {
  for (const Block& b : plan.blocks)
    if (!is_contact(b))
      for (int i = 0; i < b.n; ++i) w.J[b.jac + i] = V(plan.columns[b.dofs + i].sign);
}

// how far a ball joint is turned, and minus its axis as the Jacobian
template <class V>
V ball_angle(const Plan& plan, const Block& b, Work<V>& w) {
  const auto q = normalized(load4(w.qpos + plan.joints[b.source].qpos));
  V sine, angle;
  const auto axis = normalized(V3<V>{q.x, q.y, q.z}, &sine);
  for (int i = 0; i < V::width; ++i) {
    const double turn = 2 * std::atan2(lane(sine, i), lane(q.w, i));
    lane(angle, i) = turn > M_PI ? turn - 2 * M_PI : turn;
  }
  const auto sign = select(angle < V(0), V(1), V(-1));
  store3(w.J + b.jac, sign * axis);
  return abs(angle);
}

template <class V>
V limit_distance(const Plan& plan, const Block& b, Work<V>& w) {
  const mjModel& m = *plan.model;
  if (b.kind == Block::kBallLimit)
    return V(std::fmax(m.jnt_range[2 * b.source], m.jnt_range[2 * b.source + 1])) - ball_angle(plan, b, w);
  const bool joint = b.kind == Block::kLimit;
  const double bound = (joint ? m.jnt_range : m.tendon_range)[2 * b.source + (b.side > 0)];
  const V value = joint ? w.qpos[plan.joints[b.source].qpos] : length_of(plan.tendons[b.source], w.qpos);
  return V(b.side) * (V(bound) - value);
}

template <class V>
typename V::M holds(const Block& b, V dist) {
  return is_friction(b) ? V(0) == V(0) : dist < V(b.margin);
}

template <class V>
void find_constraints(const Plan& plan, Work<V>& w) {
  w.actives = 0;
  const int blocks = static_cast<int>(plan.blocks.size());
  for (int i = 0; i < blocks && !is_contact(plan.blocks[i]); ++i) {
    const Block& b = plan.blocks[i];
    w.dist[i] = is_friction(b) ? V(0) : limit_distance(plan, b, w);
    if (any(holds(b, w.dist[i]))) w.active[w.actives++] = i;
  }
  Collider<V>(plan, w).run();
  w.constrained = V(0) < V(0);
  for (int a = 0; a < w.actives; ++a) w.constrained = w.constrained | holds(plan.blocks[w.active[a]], w.dist[w.active[a]]);
}

// how the contact's point moves in its frame, with each degree of freedom
template <class V>
void contact_jacobian(const Plan& plan, int number, Work<V>& w) {
  const Block& b = plan.blocks[number];
  const auto frame = load9(w.contact_frame + 9 * number);
  const auto pos = load3(w.contact_pos + 3 * number);
  const V3<V> arm[2] = {pos - load3(w.subtree_com + 3 * b.root[0]), pos - load3(w.subtree_com + 3 * b.root[1])};
  V* J = w.J + b.jac;
  for (int i = 0; i < b.n; ++i) {
    const Column& column = plan.columns[b.dofs + i];
    const auto cdof = load6(w.cdof + 6 * column.dof);
    const V sign(column.sign);
    const auto velocity = sign * (cdof.t + cross(cdof.r, arm[column.sign > 0]));
    J[i] = dot(frame.a, velocity);
    if (b.dim == 1) continue;
    J[b.n + i] = dot(frame.b, velocity), J[2 * b.n + i] = dot(frame.c, velocity);
    if (b.dim == 3) continue;
    const auto turn = sign * cdof.r;
    J[3 * b.n + i] = dot(frame.a, turn);
    if (b.dim == 6) J[4 * b.n + i] = dot(frame.b, turn), J[5 * b.n + i] = dot(frame.c, turn);
  }
}

// y = J x, of one block
template <class V>
void times_jacobian(const Plan& plan, const Block& b, const V* jacobian, const V* x, V* y) {
  for (int r = 0; r < b.dim; ++r) {
    V sum(0);
    for (int i = 0; i < b.n; ++i) sum = fma(jacobian[r * b.n + i], x[plan.columns[b.dofs + i].dof], sum);
    y[r] = sum;
  }
}

// D and aref of a block's rows
template <class V>
void reference(const Plan& plan, int number, Work<V>& w) {
  const Block& b = plan.blocks[number];
  const Impedance& p = b.impedance;
  const V dist = w.dist[number], violation = is_friction(b) ? V(0) : dist - V(b.margin);
  const V imp = impedance(p, violation);
  const V R = max(V(kMinValue), (V(1) - imp) * V(b.diagonal) / imp);
  w.D[number] = select(holds(b, dist), V(1) / R, V(0));
  V* aref = w.aref + b.row;
  times_jacobian(plan, b, w.J + b.jac, w.qvel, aref);
  aref[0] = -(V(p.damping) * aref[0]);
  if (!is_friction(b)) aref[0] = fnma(V(p.stiffness) * imp, violation, aref[0]);
  const V damping(b.kind == Block::kCone ? p.friction_damping : p.damping);
  for (int r = 1; r < b.dim; ++r) aref[r] = -(damping * aref[r]);
}

template <class V>
void make_constraints(const Plan& plan, Work<V>& w) {
  find_constraints(plan, w);
  for (int a = 0; a < w.actives; ++a) {
    if (is_contact(plan.blocks[w.active[a]])) contact_jacobian(plan, w.active[a], w);
    reference(plan, w.active[a], w);
  }
}

}  // namespace
}  // namespace headrace::lanes
