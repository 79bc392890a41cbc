// Rows of constraints: which of them hold, their Jacobians, their present stiffness, and the accelerations for which
// they ask (mj_makeConstraint, mj_makeImpedance, mj_referenceConstraint).
//
// A contact keeps the rows of its frame: normal, tangents, rotations. The rows of a friction pyramid are their sums J₀
// ± μₖ Jₖ, and are formed when they are needed. A constraint is computed if it holds in some lane; in the others its D
// is zero, so that it neither pushes nor costs.
#pragma once

#include <type_traits>
#include <utility>

#include "collision.hpp"
#include "dynamics.hpp"

namespace headrace::lanes {
namespace {

inline bool is_contact(const Block& b) { return b.kind >= Block::kPoint; }
inline bool is_friction(const Block& b) { return b.kind == Block::kFrictionLoss || b.kind == Block::kTendonFriction; }
inline bool joins_bodies(const Block& b) { return b.kind == Block::kConnect || b.kind == Block::kWeld; }
inline bool is_equality(const Block& b) {
  return b.kind == Block::kJointEquality || b.kind == Block::kTendonEquality || joins_bodies(b);
}

template <class V>
V power(V x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  for (int i = 0; i < V::width; ++i) lane(x, i) = std::pow(lane(x, i), exponent);
  return x;
}

// Returns solimp at a violation (getimpedance).
template <class V>
V impedance(const Impedance& p, V violation) {
  if (p.flat) return V(0.5 * (p.dmin + p.dmax));
  const V x = abs(violation) / V(p.width), one(1);
  const V y = select(x <= V(p.midpoint), V(p.low) * power(x, p.power), fnma(V(p.high), power(one - x, p.power), one));
  const V inside = fma(y, V(p.dmax - p.dmin), V(p.dmin));
  return select(x >= one, V(p.dmax), select(x <= V(0), V(p.dmin), inside));
}

// Writes the Jacobians that never change, and the grip of constraints whose numbers are the same in all lanes.
template <class V>
void write_constants(const Plan& plan, Work<V>& w) {
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const auto& grip = plan.blocks[i].grip;
    for (int k = 0; k < 5; ++k) w.grip[i].friction[k] = V(grip.friction[k]);
    for (int k = 0; k < 6; ++k) w.grip[i].ratio[k] = V(grip.ratio[k]);
    w.grip[i].mu = V(grip.mu), w.grip[i].loss = V(grip.loss);
  }
  for (const Block& b : plan.blocks)
    if (b.dim == 1 && !is_contact(b))
      for (int i = 0; i < b.n; ++i) w.J[b.jac + i] = V(plan.columns[b.dofs + i].sign);
}

// Writes the Jacobian of a block over spatial tendons.
template <class V>
void write_moment_arms(const Plan& plan, const Block& b, Work<V>& w) {
  for (int i = 0; i < b.n; ++i) {
    const Column& column = plan.columns[b.dofs + i];
    w.J[b.jac + i] = column.arm < 0 ? V(column.sign) : V(column.sign) * w.ten_J[column.arm];
  }
}

// Returns the angle by which a ball joint is turned, and writes minus its axis as the Jacobian.
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
V3<V> anchor(const Block& b, const Work<V>& w, int i) {
  return load3(w.xpos + 3 * b.body[i]) + load9(w.xmat + 9 * b.body[i]) * constant3<V>(b.anchor[i]);
}

// The product of the first quaternion and the inverse of the second.
template <class V>
std::pair<Quat<V>, Quat<V>> orientations(const Block& b, const Work<V>& w) {
  const auto turned = [&](int i) { return load4(w.xquat + 4 * b.body[i]) * constant4<V>(b.turn[i]); };
  return {turned(0), conjugate(turned(1))};
}

template <class V>
V torque_scale(const Plan& plan, const Block& b) {
  return V(plan.model->eq_data[mjNEQDATA * b.source + 10]);
}

// Computes the distance of two bodies from where they are joined (the first's place less the second's and, for a weld,
// the vector of the first's orientation as the second sees it), and the Jacobian of both.
template <class V>
V body_error(const Plan& plan, const Block& b, Work<V>& w) {
  const V3<V> point[2] = {anchor(b, w, 0), anchor(b, w, 1)};
  V* pos = w.efc_pos + b.row;
  store3(pos, point[0] - point[1]);
  const auto [first, back] = orientations(b, w);
  const V scale = torque_scale<V>(plan, b);
  if (b.kind == Block::kWeld) {
    const auto apart = back * first;
    store3(pos + 3, scale * V3<V>{apart.x, apart.y, apart.z});
  }
  V* J = w.J + b.jac;
  for (int i = 0; i < b.n; ++i, J += b.dim) {
    const Column& column = plan.columns[b.dofs + i];
    const auto cdof = load6(w.cdof + 6 * column.dof);
    const auto velocity = [&](int end) {
      return cdof.t + cross(cdof.r, point[end] - load3(w.subtree_com + 3 * b.root[end]));
    };
    store3(J, V(column.sign) * velocity(0) - V(column.second) * velocity(1));
    if (b.kind == Block::kConnect) continue;
    const auto turn = V(column.sign - column.second) * cdof.r;
    const auto change = back * Quat<V>{V(0), turn.x, turn.y, turn.z} * first;
    store3(J + 3, (V(0.5) * scale) * V3<V>{change.x, change.y, change.z});
  }
  V sum(0);
  for (int r = 0; r < b.dim; ++r) sum = fma(pos[r], pos[r], sum);
  return sqrt(sum);
}

// Returns the change of `body_error`'s velocities if no degree of freedom accelerates: the time derivative of the
// Jacobian, times qvel (mj_Jdotv).
template <class V>
void body_drift(const Plan& plan, const Block& b, const Work<V>& w, V* drift) {
  V3<V> acc[2], turning[2], turn[2];
  for (int i = 0; i < 2; ++i) {
    const auto vel = load6(w.cvel + 6 * b.body[i]), bias = load6(w.bias_acc + 6 * b.body[i]);
    const auto arm = anchor(b, w, i) - load3(w.subtree_com + 3 * b.root[i]);
    turn[i] = vel.r, turning[i] = bias.r;
    acc[i] = (bias.t + cross(bias.r, arm)) + cross(vel.r, vel.t + cross(vel.r, arm));
  }
  store3(drift, acc[0] - acc[1]);  // gravity is in both
  if (b.kind == Block::kConnect) return;
  const auto relative = turn[0] - turn[1], change = (turning[0] - turning[1]) + cross(turn[0], turn[1]);
  const auto [first, back] = orientations(b, w);
  const auto apart = back * Quat<V>{V(-0.5) * dot(relative, relative), change.x, change.y, change.z} * first;
  store3(drift + 3, (V(0.5) * torque_scale<V>(plan, b)) * V3<V>{apart.x, apart.y, apart.z});
}

// Computes the distance of two joints or tendons from a polynomial between them, and its Jacobian.
template <class V>
V equality_error(const Plan& plan, const Block& b, Work<V>& w) {
  const mjModel& m = *plan.model;
  const mjtNum* data = m.eq_data + mjNEQDATA * b.source;
  const auto change = [&](int object) {
    if (b.kind != Block::kTendonEquality) return moved(plan.joints[object], w);
    return w.ten_length[object] - number(w, kTendonLength0, object, m.tendon_length0[object]);
  };
  V error = change(m.eq_obj1id[b.source]) - V(data[0]);
  if (m.eq_obj2id[b.source] < 0) return error;
  const V x = change(m.eq_obj2id[b.source]);
  const V slope = fma(x, fma(x, fma(x, V(4 * data[4]), V(3 * data[3])), V(2 * data[2])), V(data[1]));
  for (int i = 0; i < b.n; ++i) {
    const Column& column = plan.columns[b.dofs + i];
    const V second = column.second_arm < 0 ? V(column.second) : V(column.second) * w.ten_J[column.second_arm];
    w.J[b.jac + i] = fnma(slope, second, b.moves ? w.J[b.jac + i] : V(column.sign));
  }
  return fnma(x, fma(x, fma(x, fma(x, V(data[4]), V(data[3])), V(data[2])), V(data[1])), error);
}

template <class V>
V limit_distance(const Plan& plan, const Block& b, Work<V>& w) {
  const mjModel& m = *plan.model;
  const auto bound = [&](int side) {
    return number(w, kJntRange, 2 * b.source + side, m.jnt_range[2 * b.source + side]);
  };
  if (b.kind == Block::kBallLimit) return max(bound(0), bound(1)) - ball_angle(plan, b, w);
  const int side = b.side > 0;
  if (b.kind == Block::kLimit) return V(b.side) * (bound(side) - w.qpos[plan.joints[b.source].qpos]);
  return V(b.side) * (V(m.tendon_range[2 * b.source + side]) - w.ten_length[b.source]);
}

// Returns 0 in the lanes in which a degree of freedom has friction, and 1 in the others.
template <class V>
V friction_holds(const Block& b, int number, Work<V>& w) {
  const V* own = b.kind == Block::kFrictionLoss ? w.own(kDofFrictionloss) : nullptr;
  if (!own) return V(0);
  w.grip[number].loss = own[b.source];
  return select(V(0) < own[b.source], V(0), V(1));
}

template <class V>
typename V::M holds(const Block& b, V dist) {
  return is_equality(b) ? V(0) == V(0) : dist < V(b.margin);
}

// Computes the distances of a new state's limits, and their Jacobians.
template <class V>
void find_limits(const Plan& plan, Work<V>& w) {
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const Block& b = plan.blocks[i];
    if (b.kind != Block::kLimit && b.kind != Block::kBallLimit && b.kind != Block::kTendonLimit) continue;
    if (b.moves) write_moment_arms(plan, b, w);
    w.dist[i] = limit_distance(plan, b, w);
    w.bad = w.bad | ties(w.dist[i], b.margin);
  }
}

// Finds a new state's contacts.
template <class V>
void find_contacts(const Plan& plan, Work<V>& w) {
  w.actives = 0;
  Collider<V>(plan, w).run();
}

template <class V>
void find_constraints(const Plan& plan, Work<V>& w) {
  w.actives = 0;
  const int blocks = static_cast<int>(plan.blocks.size());
  for (int i = 0; i < blocks && !is_contact(plan.blocks[i]); ++i) {
    const Block& b = plan.blocks[i];
    if (b.moves) write_moment_arms(plan, b, w);
    w.dist[i] = is_friction(b)    ? friction_holds(b, i, w)
                : joins_bodies(b) ? body_error(plan, b, w)
                : is_equality(b)  ? equality_error(plan, b, w)
                                  : limit_distance(plan, b, w);
    if (b.kind == Block::kBallLimit || b.kind == Block::kTendonLimit) w.bad = w.bad | ties(w.dist[i], b.margin);
    if (any(holds(b, w.dist[i]))) w.active[w.actives++] = i;
  }
  Collider<V>(plan, w).run();
  w.constrained = V(0) < V(0);
  for (int a = 0; a < w.actives; ++a)
    w.constrained = w.constrained | holds(plan.blocks[w.active[a]], w.dist[w.active[a]]);
}

// Computes how the contact's point moves in its frame with each degree of freedom.
template <class V, int dim>
void contact_jacobian(const Plan& plan, int number, Work<V>& w) {
  const Block& b = plan.blocks[number];
  const auto frame = load9(w.contact_frame + 9 * number);
  const auto pos = load3(w.contact_pos + 3 * number);
  const V3<V> arm[2] = {pos - load3(w.subtree_com + 3 * b.root[0]), pos - load3(w.subtree_com + 3 * b.root[1])};
  V* J = w.J + b.jac;
  for (int i = 0; i < b.n; ++i, J += dim) {
    const Column& column = plan.columns[b.dofs + i];
    const auto cdof = load6(w.cdof + 6 * column.dof);
    const V sign(column.sign);
    const auto velocity = sign * (cdof.t + cross(cdof.r, arm[column.sign > 0])), turn = sign * cdof.r;
    J[0] = dot(frame.a, velocity);
    if constexpr (dim > 1) J[1] = dot(frame.b, velocity), J[2] = dot(frame.c, velocity);
    if constexpr (dim > 3) J[3] = dot(frame.a, turn);
    if constexpr (dim > 4) J[4] = dot(frame.b, turn), J[5] = dot(frame.c, turn);
  }
}

// Calls visit with the number of rows as a constant.
template <class Visit>
inline void with_dim(const Block& b, Visit visit) {
  switch (b.dim) {
    case 1: return visit(std::integral_constant<int, 1>());
    case 3: return visit(std::integral_constant<int, 3>());
    case 4: return visit(std::integral_constant<int, 4>());
    case 6: return visit(std::integral_constant<int, 6>());
  }
}

// y = J x, of one block.
template <class V>
void times_jacobian(const Plan& plan, const Block& b, const Work<V>& w, const V* x, V* y) {
  with_dim(b, [&](auto dim) {
    V sum[dim];
    for (int r = 0; r < dim; ++r) sum[r] = V(0);
    const V* J = w.J + b.jac;
    for (int i = 0; i < b.n; ++i, J += dim) {
      const V value = x[plan.columns[b.dofs + i].dof];
      for (int r = 0; r < dim; ++r) sum[r] = fma(J[r], value, sum[r]);
    }
    for (int r = 0; r < dim; ++r) y[r] = sum[r];
  });
}

// Returns the inverse inertia of a block's first row (mj_diagApprox) and, where it differs between the lanes, writes
// what else does. Few models need it, so it stays out of the others' way.
template <class V>
[[gnu::noinline]] V own_diagonal(const Plan& plan, int number, Work<V>& w) {
  const mjModel& m = *plan.model;
  const Block& b = plan.blocks[number];
  Grip<V>& grip = w.grip[number];
  const V *dofs = w.own(kDofInvweight0), *bodies = w.own(kBodyInvweight0), *tendons = w.own(kTendonInvweight0);
  const auto both = [&](int k) { return bodies[2 * b.body[0] + k] + bodies[2 * b.body[1] + k]; };
  if (is_contact(b)) {
    const V moved = bodies ? both(0) : V(m.body_invweight0[2 * b.body[0]] + m.body_invweight0[2 * b.body[1]]);
    constexpr int kFrom[5] = {0, 0, 1, 2, 2};
    const V *pairs = w.own(kPairFriction), *geoms = w.own(kGeomFriction);
    for (int k = 0; k < 5; ++k)
      if (b.source >= 0 && pairs) grip.friction[k] = max(V(mjMINMU), pairs[5 * b.source + k]);
      else if (b.source < 0 && geoms)
        grip.friction[k] = max(V(mjMINMU), max(geoms[3 * b.surface[0] + kFrom[k]], geoms[3 * b.surface[1] + kFrom[k]]));
    return finish_grip(b.kind, plan.impratio, moved, grip);
  }
  switch (b.kind) {
    case Block::kFrictionLoss: return dofs ? dofs[b.source] : V(b.diagonal);
    case Block::kLimit:
    case Block::kBallLimit: return dofs ? dofs[m.jnt_dofadr[b.source]] : V(b.diagonal);
    case Block::kTendonFriction:
    case Block::kTendonLimit: return tendons ? tendons[b.source] : V(b.diagonal);
    case Block::kJointEquality:
    case Block::kTendonEquality: {
      const bool joints = b.kind == Block::kJointEquality;
      if (!(joints ? dofs : tendons)) return V(b.diagonal);
      const auto of = [&](int object) { return joints ? dofs[m.jnt_dofadr[object]] : tendons[object]; };
      const V first = of(m.eq_obj1id[b.source]);
      return m.eq_obj2id[b.source] < 0 ? first : first + of(m.eq_obj2id[b.source]);
    }
    default: break;  // joined bodies
  }
  if (!bodies) return V(b.diagonal);
  const V turned = both(1), none = V(0);
  const auto fixed = turned < V(kMinValue);
  for (int r = 3; r < b.dim; ++r) grip.ratio[r] = select(fixed, none, both(0) / select(fixed, V(1), turned));
  return both(0);
}

// Computes D and aref of a block's rows.
template <class V>
void reference(const Plan& plan, int number, Work<V>& w) {
  const Block& b = plan.blocks[number];
  const Impedance& p = b.impedance;
  const V dist = w.dist[number], violation = is_friction(b) ? V(0) : dist - V(b.margin);
  const V imp = impedance(p, violation);
  const bool differs = kDiffer && plan.own_grip;
  const V diagonal = differs ? own_diagonal(plan, number, w) : V(b.diagonal);
  const V R = max(V(kMinValue), (V(1) - imp) * diagonal / imp);
  w.D[number] = select(holds(b, dist), V(1) / R, V(0));
  // A constraint that met no inertia when the model was made, such as a tendon through a hinge, is so stiff that
  // rounding alone decides: libmujoco makes that step.
  if (differs || b.diagonal < kMinValue) w.bad = w.bad | (holds(b, dist) & (diagonal < V(kMinValue)));
  V* aref = w.aref + b.row;
  times_jacobian(plan, b, w, w.qvel, aref);
  if (joins_bodies(b)) {
    V drift[6];
    body_drift(plan, b, w, drift);
    for (int r = 0; r < b.dim; ++r)
      aref[r] = -(fma(V(p.damping), aref[r], V(p.stiffness) * imp * w.efc_pos[b.row + r]) + drift[r]);
    return;
  }
  aref[0] = -(V(p.damping) * aref[0]);
  if (!is_friction(b)) aref[0] = fnma(V(p.stiffness) * imp, violation, aref[0]);
  const V damping(b.kind == Block::kCone ? p.friction_damping : p.damping);
  for (int r = 1; r < b.dim; ++r) aref[r] = -(damping * aref[r]);
}

template <class V>
void make_constraints(const Plan& plan, Work<V>& w) {
  find_constraints(plan, w);
  for (int a = 0; a < w.actives; ++a) {
    const Block& b = plan.blocks[w.active[a]];
    if (is_contact(b)) with_dim(b, [&](auto dim) { contact_jacobian<V, dim>(plan, w.active[a], w); });
    reference(plan, w.active[a], w);
  }
}

}  // namespace
}  // namespace headrace::lanes
