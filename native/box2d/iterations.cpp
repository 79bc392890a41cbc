#include "iterations.hpp"

#include <Box2D/Dynamics/b2Body.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "wide.hpp"

namespace headrace::box2d {
namespace {

// The alignment is given, as by default it differs between processors.
using Lanes = float __attribute__((vector_size(4 * kLanes), aligned(4 * kLanes)));

inline Lanes lanes(const float (&values)[kLanes]) {
  Lanes all;
  std::memcpy(&all, values, sizeof all);
  return all;
}

// Chooses one of two numbers in each lane, by a comparison of lanes.
template <class Mask>
inline Lanes choose(Mask mask, Lanes yes, Lanes no) {
  return mask ? yes : no;
}
inline Lanes at_least(Lanes x, Lanes low) { return choose(x > low, x, low); }    // b2Max
inline Lanes at_most(Lanes x, Lanes high) { return choose(x < high, x, high); }  // b2Min

struct Pair {
  Lanes x{}, y{};

  void set(int lane, const b2Vec2& v) { x[lane] = v.x, y[lane] = v.y; }
};

inline Pair operator+(const Pair& a, const Pair& b) { return {a.x + b.x, a.y + b.y}; }
inline Pair operator-(const Pair& a, const Pair& b) { return {a.x - b.x, a.y - b.y}; }
inline Pair operator*(Lanes s, const Pair& a) { return {s * a.x, s * a.y}; }
inline Lanes dot(const Pair& a, const Pair& b) { return a.x * b.x + a.y * b.y; }
inline Lanes cross(const Pair& a, const Pair& b) { return a.x * b.y - a.y * b.x; }
inline Pair cross(Lanes s, const Pair& a) { return {-s * a.y, s * a.x}; }

struct Motion {
  Pair v;
  Lanes w{};
};

float inverse(float det) { return det != 0.0f ? 1.0f / det : det; }

// b2RevoluteJoint::SolveVelocityConstraints; k is its symmetric matrix
struct Hinge {
  int a = 0, b = 0;                    // the numbers of its bodies among those that move
  Lanes mass_a{}, mass_b{}, inertia_a{}, inertia_b{};   // inverse
  Pair r_a, r_b;
  Lanes xx{}, xy{}, xz{}, yy{}, yz{}, zz{}, det22{}, det33{}, minor_x{}, minor_y{}, minor_z{};
  Lanes motor_mass{}, motor_speed{}, most_motor{}, motor_impulse{};
  Pair impulse;
  Lanes limit_impulse{};
  Lanes has_motor{}, limited{}, lower{}, upper{};       // 1 or 0

  void load(int lane, const b2RevoluteJoint& j, float dt) {
    const bool fixed = j.m_invIA + j.m_invIB == 0.0f;
    const b2LimitState state = j.m_enableLimit && !fixed ? j.m_limitState : e_inactiveLimit;
    mass_a[lane] = j.m_invMassA, mass_b[lane] = j.m_invMassB;
    inertia_a[lane] = j.m_invIA, inertia_b[lane] = j.m_invIB;
    r_a.set(lane, j.m_rA), r_b.set(lane, j.m_rB);
    const b2Mat33& k = j.m_mass;
    xx[lane] = k.ex.x, xy[lane] = k.ey.x, xz[lane] = k.ez.x, yy[lane] = k.ey.y, yz[lane] = k.ez.y, zz[lane] = k.ez.z;
    const b2Vec3 minors = b2Cross(k.ey, k.ez);
    minor_x[lane] = minors.x, minor_y[lane] = minors.y, minor_z[lane] = minors.z;
    det22[lane] = inverse(k.ex.x * k.ey.y - k.ey.x * k.ex.y);
    det33[lane] = inverse(b2Dot(k.ex, minors));
    motor_mass[lane] = j.m_motorMass, motor_speed[lane] = j.m_motorSpeed, most_motor[lane] = dt * j.m_maxMotorTorque;
    motor_impulse[lane] = j.m_motorImpulse;
    impulse.set(lane, {j.m_impulse.x, j.m_impulse.y});
    limit_impulse[lane] = j.m_impulse.z;
    has_motor[lane] = j.m_enableMotor && j.m_limitState != e_equalLimits && !fixed;
    limited[lane] = state != e_inactiveLimit;
    lower[lane] = state == e_atLowerLimit, upper[lane] = state == e_atUpperLimit;
  }

  void store(int lane, b2RevoluteJoint& j) const {
    j.m_motorImpulse = motor_impulse[lane];
    j.m_impulse.Set(impulse.x[lane], impulse.y[lane], limit_impulse[lane]);
  }

  Pair solve22(const Pair& b) const { return {det22 * (yy * b.x - xy * b.y), det22 * (xx * b.y - xy * b.x)}; }

  void solve(Motion& of_a, Motion& of_b) {
    Lanes w_a = of_a.w, w_b = of_b.w;
    const Lanes asked = motor_impulse + -motor_mass * (w_b - w_a - motor_speed);
    const Lanes turned = at_least(at_most(asked, most_motor), -most_motor);
    const Lanes turn = choose(has_motor > 0, turned - motor_impulse, Lanes{});
    motor_impulse = choose(has_motor > 0, turned, motor_impulse);
    w_a = w_a - inertia_a * turn;
    w_b = w_b + inertia_b * turn;

    const Pair slip = of_b.v + cross(w_b, r_b) - of_a.v - cross(w_a, r_a);
    const Lanes spin = w_b - w_a;
    // A joint without a limit.
    const Pair free = solve22({-slip.x, -slip.y});
    // A joint at a limit: all three equations, or two of them if the limit would pull.
    const Lanes x = -(det33 * (slip.x * minor_x + slip.y * minor_y + spin * minor_z));
    const Lanes y =
        -(det33 * (xx * (slip.y * zz - spin * yz) + xy * (spin * xz - slip.x * zz) + xz * (slip.x * yz - slip.y * xz)));
    const Lanes z =
        -(det33 * (xx * (yy * spin - yz * slip.y) + xy * (yz * slip.x - xy * spin) + xz * (xy * slip.y - yy * slip.x)));
    const Lanes whole = limit_impulse + z;
    const auto pulls = ((lower > 0) & (whole < 0)) | ((upper > 0) & (whole > 0));
    const Pair less = solve22({-slip.x + limit_impulse * xz, -slip.y + limit_impulse * yz});
    const auto at_limit = limited > 0;
    const Pair p{choose(at_limit, choose(pulls, less.x, x), free.x),
                 choose(at_limit, choose(pulls, less.y, y), free.y)};
    const Lanes push = choose(at_limit, choose(pulls, -limit_impulse, z), Lanes{});
    impulse = impulse + p;
    limit_impulse = choose(at_limit, choose(pulls, Lanes{}, whole), limit_impulse);

    of_a = {of_a.v - mass_a * p, w_a - inertia_a * (cross(r_a, p) + push)};
    of_b = {of_b.v + mass_b * p, w_b + inertia_b * (cross(r_b, p) + push)};
  }
};

// b2ContactSolver::SolveVelocityConstraints for a body that moves and one that is fixed. If the moving body is the
// first of the two, its mass and inertia are negative.
struct Touch {
  std::array<int, kLanes> body{};
  Lanes mass{}, inertia{}, sign{}, friction{}, speed{}, two{};   // two: 1 if there are two points, else 0
  Pair normal;
  std::array<Pair, 2> r;
  Lanes normal_mass[2]{}, tangent_mass[2]{}, bias[2]{}, normal_impulse[2]{}, tangent_impulse[2]{};
  Lanes k_xx{}, k_xy{}, k_yx{}, k_yy{}, m_xx{}, m_xy{}, m_yx{}, m_yy{};  // the matrix of both points, and its inverse

  void load(int lane, const b2ContactVelocityConstraint& c, int moving, bool first) {
    body[lane] = moving;
    sign[lane] = first ? -1.0f : 1.0f;
    mass[lane] = first ? -c.invMassA : c.invMassB;
    inertia[lane] = first ? -c.invIA : c.invIB;
    friction[lane] = c.friction, speed[lane] = c.tangentSpeed;
    two[lane] = c.pointCount == 2;
    normal.set(lane, c.normal);
    for (int i = 0; i < c.pointCount; ++i) {
      const auto& point = c.points[i];
      r[i].set(lane, first ? point.rA : point.rB);
      normal_mass[i][lane] = point.normalMass, tangent_mass[i][lane] = point.tangentMass;
      bias[i][lane] = point.velocityBias;
      normal_impulse[i][lane] = point.normalImpulse, tangent_impulse[i][lane] = point.tangentImpulse;
    }
    k_xx[lane] = c.K.ex.x, k_xy[lane] = c.K.ey.x, k_yx[lane] = c.K.ex.y, k_yy[lane] = c.K.ey.y;
    m_xx[lane] = c.normalMass.ex.x, m_xy[lane] = c.normalMass.ey.x;
    m_yx[lane] = c.normalMass.ex.y, m_yy[lane] = c.normalMass.ey.y;
  }

  void store(int lane, b2ContactVelocityConstraint& c) const {
    for (int i = 0; i < c.pointCount; ++i)
      c.points[i].normalImpulse = normal_impulse[i][lane], c.points[i].tangentImpulse = tangent_impulse[i][lane];
  }

  Pair slip(const Motion& m, int point) const { return sign * (m.v + cross(m.w, r[point])); }

  void solve(Motion& m) {
    const Pair tangent{normal.y, -normal.x};
    for (int i = 0; i < 2; ++i) {  // a point that does not exist has no mass
      const Lanes lambda = tangent_mass[i] * -(dot(slip(m, i), tangent) - speed);
      const Lanes most = friction * normal_impulse[i];
      const Lanes whole = at_least(at_most(tangent_impulse[i] + lambda, most), -most);
      push(m, i, (whole - tangent_impulse[i]) * tangent);
      tangent_impulse[i] = whole;
    }

    const Lanes b0 = dot(slip(m, 0), normal) - bias[0];
    const Lanes one = at_least(normal_impulse[0] + -normal_mass[0] * b0, Lanes{});
    const Pair a{normal_impulse[0], normal_impulse[1]};
    const Pair b = Pair{b0, dot(slip(m, 1), normal) - bias[1]} - Pair{k_xx * a.x + k_xy * a.y, k_yx * a.x + k_yy * a.y};
    // The first of four cases that holds: both points press, the first, the second, none.
    const Pair both{-(m_xx * b.x + m_xy * b.y), -(m_yx * b.x + m_yy * b.y)};
    const Lanes x = -normal_mass[0] * b.x, y = -normal_mass[1] * b.y;
    const auto case1 = (both.x >= 0) & (both.y >= 0);
    const auto case2 = (x >= 0) & (k_yx * x + b.y >= 0);
    const auto case3 = (y >= 0) & (k_xy * y + b.x >= 0);
    const auto case4 = (b.x >= 0) & (b.y >= 0);
    const Lanes none{};
    const Pair four{choose(case1, both.x, choose(case2, x, choose(case3 | case4, none, a.x))),
                    choose(case1, both.y, choose(case2, none, choose(case3, y, choose(case4, none, a.y))))};
    const Pair now{choose(two > 0, four.x, one), choose(two > 0, four.y, a.y)};
    const Pair p0 = (now.x - a.x) * normal, p1 = (now.y - a.y) * normal;
    m.v = m.v + mass * (p0 + p1);
    m.w = m.w + inertia * (cross(r[0], p0) + cross(r[1], p1));
    normal_impulse[0] = now.x, normal_impulse[1] = now.y;
  }

  void push(Motion& m, int point, const Pair& p) const {
    m.v = m.v + mass * p;
    m.w = m.w + inertia * cross(r[point], p);
  }
};

// The islands of kLanes worlds.
class Worlds {
 public:
  void load(std::span<Iterations* const> islands) {
    hinges_.assign(islands[0]->num_joints, {});
    touches_.clear();
    const auto most = std::ranges::max(islands, {}, [](auto* island) { return island->num_bodies; })->num_bodies;
    motions_.assign(most, {});
    for (std::size_t lane = 0; lane < islands.size(); ++lane) load(static_cast<int>(lane), *islands[lane]);
  }

  HEADRACE_WIDE void iterate(int count) {
    for (int i = 0; i < count; ++i) {
      for (auto& hinge : hinges_) hinge.solve(motions_[hinge.a], motions_[hinge.b]);
      for (auto& touch : touches_) {
        alignas(Lanes) float x[kLanes], y[kLanes], w[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
          const Motion& from = motions_[touch.body[lane]];
          x[lane] = from.v.x[lane], y[lane] = from.v.y[lane], w[lane] = from.w[lane];
        }
        Motion motion{{lanes(x), lanes(y)}, lanes(w)};
        touch.solve(motion);
        for (int lane = 0; lane < kLanes; ++lane) {
          Motion& to = motions_[touch.body[lane]];
          to.v.x[lane] = motion.v.x[lane], to.v.y[lane] = motion.v.y[lane], to.w[lane] = motion.w[lane];
        }
      }
    }
  }

  void store(std::span<Iterations* const> islands) const {
    for (std::size_t lane = 0; lane < islands.size(); ++lane) store(static_cast<int>(lane), *islands[lane]);
  }

 private:
  // Returns a body's number among those of an island that move.
  static int moving(const Iterations& island, int index) {
    return static_cast<int>(std::count_if(island.bodies, island.bodies + index, [](auto* b) { return moves(*b); }));
  }
  static bool moves(const b2Body& body) { return body.m_type != b2_staticBody; }

  void load(int lane, const Iterations& island) {
    for (int i = 0, to = 0; i < island.num_bodies; ++i) {
      if (!moves(*island.bodies[i])) continue;
      motions_[to].v.set(lane, island.velocities[i].v);
      motions_[to++].w[lane] = island.velocities[i].w;
    }
    for (int i = 0; i < island.num_joints; ++i) {
      const auto& joint = static_cast<const b2RevoluteJoint&>(*island.joints[i]);
      hinges_[i].a = moving(island, joint.m_indexA), hinges_[i].b = moving(island, joint.m_indexB);
      hinges_[i].load(lane, joint, island.step.dt);
    }
    const b2ContactSolver& contacts = *island.contacts;
    if (touches_.size() < static_cast<std::size_t>(contacts.m_count)) touches_.resize(contacts.m_count);
    for (int i = 0; i < contacts.m_count; ++i) {
      const auto& contact = contacts.m_velocityConstraints[i];
      const bool first = moves(*island.bodies[contact.indexA]);
      touches_[i].load(lane, contact, moving(island, first ? contact.indexA : contact.indexB), first);
    }
  }

  void store(int lane, Iterations& island) const {
    for (int i = 0, from = 0; i < island.num_bodies; ++i) {
      if (!moves(*island.bodies[i])) continue;
      const Motion& motion = motions_[from++];
      island.velocities[i] = {b2Vec2(motion.v.x[lane], motion.v.y[lane]), motion.w[lane]};
    }
    for (int i = 0; i < island.num_joints; ++i)
      hinges_[i].store(lane, static_cast<b2RevoluteJoint&>(*island.joints[i]));
    for (int i = 0; i < island.contacts->m_count; ++i)
      touches_[i].store(lane, island.contacts->m_velocityConstraints[i]);
  }

  std::vector<Hinge> hinges_;
  std::vector<Touch> touches_;
  std::vector<Motion> motions_;
};

bool is_simple(const Iterations& island) {
  for (int i = 0; i < island.num_joints; ++i)
    if (island.joints[i]->m_type != e_revoluteJoint) return false;
  for (int i = 0; i < island.contacts->m_count; ++i) {
    const auto& contact = island.contacts->m_velocityConstraints[i];
    const auto fixed = [&](int index) { return island.bodies[index]->m_type == b2_staticBody; };
    if (fixed(contact.indexA) == fixed(contact.indexB)) return false;
  }
  return true;
}

}  // namespace

// Worlds of one task have the same joints in the same order, so the number of joints is enough to compare.
bool fit(const Iterations& one, const Iterations& other) {
  return is_simple(one) && is_simple(other) && one.num_joints == other.num_joints;
}

void iterate(std::span<Iterations* const> islands) {
  thread_local Worlds worlds;
  worlds.load(islands);
  worlds.iterate(islands[0]->step.velocityIterations);
  worlds.store(islands);
}

}  // namespace headrace::box2d
