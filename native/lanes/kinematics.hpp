// Positions and orientations of everything: mj_kinematics, mj_comPos and mj_tendon.
#pragma once

#include <algorithm>

#include "work.hpp"

namespace headrace::lanes {
namespace {

// Places a body's centre of mass, and turns its inertia.
template <class V>
void place_inertia(const Body& body, const V3<V>& pos, const Mat3<V>& mat, Work<V>& w) {
  const V* turn = w.own(kBodyIquat);
  store3(w.xipos + 3 * body.id, fma(V(1), pos, mat * numbers3(w, kBodyIpos, 3 * body.id, body.ipos)));
  if (turn) store9(w.ximat + 9 * body.id, mat * matrix_of(load4(turn + 4 * body.id)));
  else store9(w.ximat + 9 * body.id, body.tilted ? mat * constant9<V>(body.imat) : mat);
}

// Places the bodies that cannot move, once.
template <class V>
void place_fixed(const Plan& plan, Work<V>& w) {
  const double* pose = plan.fixed_pose.data();
  for (const Body& b : plan.fixed) {
    for (int i = 0; i < 3; ++i) w.xpos[3 * b.id + i] = V(*pose++);
    for (int i = 0; i < 4; ++i) w.xquat[4 * b.id + i] = V(*pose++);
    for (int i = 0; i < 9; ++i) w.xmat[9 * b.id + i] = V(*pose++);
    place_inertia(b, load3(w.xpos + 3 * b.id), load9(w.xmat + 9 * b.id), w);
    store3(w.subtree_com + 3 * b.id, load3(w.xipos + 3 * b.id));
  }
}

// Returns whether a geom's whole orientation is needed; otherwise its axis is enough.
inline bool has_matrix(const Geom& g) {
  return g.type == mjGEOM_BOX || g.type == mjGEOM_CYLINDER || g.type == mjGEOM_ELLIPSOID || g.type == mjGEOM_HFIELD;
}

template <class V>
void place_geom(const Geom& g, int i, Work<V>& w) {
  const auto mat = load9(w.xmat + 9 * g.body);
  store3(w.geom_xpos + 3 * i, load3(w.xpos + 3 * g.body) + mat * constant3<V>(g.pos));
  if (g.type == mjGEOM_SPHERE) return;
  if (has_matrix(g)) return store9(w.geom_xmat + 9 * i, mat * constant9<V>(g.mat));
  store3(w.geom_xmat + 9 * i, mat * constant3<V>(g.axis));  // nothing more is needed of the others
}

template <class V>
void place_fixed_geoms(const Plan& plan, Work<V>& w) {
  for (std::size_t i = 0; i < plan.geoms.size(); ++i)
    if (plan.geoms[i].is_static) place_geom(plan.geoms[i], static_cast<int>(i), w);
}

// A body's position and orientation, moved by its joints.
template <class V>
struct Pose {
  V3<V> pos;
  Quat<V> quat;
  Mat3<V> mat;
};

template <class V>
Pose<V> pose_before_joints(const Body& body, const Work<V>& w) {
  if (body.mocap >= 0) {
    const auto quat = normalized(load4(w.mocap_quat + 4 * body.mocap));
    return {load3(w.mocap_pos + 3 * body.mocap), quat, matrix_of(quat)};
  }
  const auto mat = load9(w.xmat + 9 * body.parent);
  const V* turn = w.own(kBodyQuat);
  const auto pos = load3(w.xpos + 3 * body.parent) + mat * numbers3(w, kBodyPos, 3 * body.id, body.pos);
  const auto quat = load4(w.xquat + 4 * body.parent);
  if (!body.turned && !turn) return {pos, quat, mat};
  const auto turned = quat * (turn ? normalized(load4(turn + 4 * body.id)) : constant4<V>(body.quat));
  return {pos, turned, matrix_of(turned)};
}

// Places the bodies that cannot move, but stand elsewhere in each lane or are otherwise heavy.
template <class V>
void place_own(const Plan& plan, Work<V>& w) {
  for (const Body& b : plan.fixed) {
    if (b.id == 0) continue;
    const auto pose = pose_before_joints(b, w);
    store3(w.xpos + 3 * b.id, pose.pos), store4(w.xquat + 4 * b.id, pose.quat), store9(w.xmat + 9 * b.id, pose.mat);
    place_inertia(b, pose.pos, pose.mat, w);
  }
  place_fixed_geoms(plan, w);
}

// Returns how far a hinge or slide is from where the model has it.
template <class V>
V moved(const Joint& joint, const Work<V>& w) {
  return w.qpos[joint.qpos] - number(w, kQpos0, joint.qpos, joint.ref);
}

template <class V>
void move_by(const Joint& joint, int j, Pose<V>& pose, Work<V>& w) {
  const auto axis = pose.mat * constant3<V>(joint.axis), anchor = pose.pos + pose.mat * constant3<V>(joint.pos);
  store3(w.xaxis + 3 * j, axis), store3(w.xanchor + 3 * j, anchor);
  const V* q = w.qpos + joint.qpos;
  if (joint.type == mjJNT_SLIDE) {
    pose.pos = fma(moved(joint, w), axis, pose.pos);
    return;
  }
  const auto turn =
      joint.type == mjJNT_BALL ? normalized(load4(q)) : rotation(constant3<V>(joint.axis), moved(joint, w));
  pose.quat = pose.quat * turn;
  pose.mat = matrix_of(pose.quat);
  pose.pos = anchor - pose.mat * constant3<V>(joint.pos);
}

// Places everything in one lane, to the last bit as MuJoCo does, for MuJoCo's own functions.
template <class V>
void place_by_mujoco(const Plan& plan, Work<V>& w, int l) {
  if (w.placed >> l & 1) return;
  w.placed |= std::uint32_t{1} << l;
  take(w.qpos, static_cast<int>(plan.model->nq), l, w.data[l]->qpos);
  mj_kinematics(w.models[l], w.data[l]);
}

template <class V>
void kinematics(const Plan& plan, Work<V>& w) {
  w.placed = 0;
  for (const Body& body : plan.bodies) {
    Pose<V> pose;
    if (body.joints == 1 && plan.joints[body.first_joint].type == mjJNT_FREE) {
      const V* q = w.qpos + plan.joints[body.first_joint].qpos;
      const auto quat = normalized(load4(q + 3));
      pose = {load3(q), quat, matrix_of(quat)};
      store3(w.xanchor + 3 * body.first_joint, pose.pos);
    } else {
      pose = pose_before_joints(body, w);
      for (int j = body.first_joint; j < body.first_joint + body.joints; ++j) move_by(plan.joints[j], j, pose, w);
    }
    store3(w.xpos + 3 * body.id, pose.pos), store4(w.xquat + 4 * body.id, pose.quat),
        store9(w.xmat + 9 * body.id, pose.mat);
    place_inertia(body, pose.pos, pose.mat, w);
  }
  for (std::size_t i = 0; i < plan.geoms.size(); ++i)
    if (!plan.geoms[i].is_static) place_geom(plan.geoms[i], static_cast<int>(i), w);
}

template <class V>
V coefficient(const Combination::Term& term, const Work<V>& w) {
  if (term.arm >= 0) return V(term.gear) * w.ten_J[term.arm];
  const V* own = w.own(kWrapPrm);
  return own && term.wrap >= 0 ? V(term.gear) * own[term.wrap] : V(term.coefficient);
}

template <class V>
V length_of(const Combination& c, const Work<V>& w) {
  if (c.spatial >= 0) return V(c.gear) * w.ten_length[c.spatial];
  V sum(0);
  for (const auto& term : c.terms) sum = fma(coefficient(term, w), w.qpos[term.qpos], sum);
  return sum;
}

template <class V>
V velocity_of(const Combination& c, const Work<V>& w) {
  V sum(0);
  for (const auto& term : c.terms) sum = fma(coefficient(term, w), w.qvel[term.dof], sum);
  return sum;
}

template <class V>
V mass(const Body& b, const Work<V>& w) {
  return number(w, kBodyMass, b.id, b.mass);
}

template <class V>
void centres_of_mass(const Plan& plan, Work<V>& w) {
  const auto begin = [&](const Body& b) { store3(w.subtree_com + 3 * b.id, mass(b, w) * load3(w.xipos + 3 * b.id)); };
  const auto add_to_parent = [&](const Body& b) {
    V* com = w.subtree_com + 3 * b.parent;
    store3(com, load3(com) + load3(w.subtree_com + 3 * b.id));
  };
  const auto finish = [&](const Body& b) {
    V* com = w.subtree_com + 3 * b.id;
    if (const V* own = w.own(kBodySubtreeMass)) {
      const auto none = own[b.id] < V(kMinValue);
      store3(com, select(none, load3(w.xipos + 3 * b.id), V(1) / select(none, V(1), own[b.id]) * load3(com)));
    } else if (b.subtree_mass < kMinValue) store3(com, load3(w.xipos + 3 * b.id));
    else store3(com, V(1 / b.subtree_mass) * load3(com));
  };
  if (plan.fixed_centres) std::for_each(plan.fixed.begin(), plan.fixed.end(), begin);
  std::for_each(plan.bodies.begin(), plan.bodies.end(), begin);
  for (auto b = plan.bodies.rbegin(); b != plan.bodies.rend(); ++b)
    if (plan.fixed_centres || b->parent != 0) add_to_parent(*b);
  if (plan.fixed_centres) {  // no body that moves carries them
    for (auto b = plan.fixed.rbegin(); b != plan.fixed.rend(); ++b)
      if (b->id != 0) add_to_parent(*b);
    std::for_each(plan.fixed.begin(), plan.fixed.end(), finish);
  }
  std::for_each(plan.bodies.begin(), plan.bodies.end(), finish);
}

// Returns a body's inertia about its tree's centre of mass (mju_inertCom).
template <class V>
void inertia_about_centre(const Body& b, Work<V>& w) {
  const auto mat = load9(w.ximat + 9 * b.id);
  const auto d = load3(w.xipos + 3 * b.id) - load3(w.subtree_com + 3 * b.root);
  const auto about = numbers3(w, kBodyInertia, 3 * b.id, b.inertia);
  const Mat3<V> scaled{{about.x * mat.a.x, about.y * mat.a.y, about.z * mat.a.z},
                       {about.x * mat.b.x, about.y * mat.b.y, about.z * mat.b.z},
                       {about.x * mat.c.x, about.y * mat.c.y, about.z * mat.c.z}};
  const V heavy = mass(b, w);
  const auto moment = heavy * d;
  V* i = w.cinert + 10 * b.id;
  const V xx = moment.x * d.x, yy = moment.y * d.y, zz = moment.z * d.z;
  i[0] = dot(scaled.a, mat.a) + (yy + zz), i[1] = dot(scaled.b, mat.b) + (xx + zz),
  i[2] = dot(scaled.c, mat.c) + (xx + yy);
  i[3] = fnma(moment.x, d.y, dot(scaled.a, mat.b)), i[4] = fnma(moment.x, d.z, dot(scaled.a, mat.c));
  i[5] = fnma(moment.y, d.z, dot(scaled.b, mat.c));
  store3(i + 6, moment), i[9] = heavy;
}

// Computes the motion along each degree of freedom, about its tree's centre of mass.
template <class V>
void motions(const Plan& plan, const Body& body, Work<V>& w) {
  const auto com = load3(w.subtree_com + 3 * body.root);
  for (int j = body.first_joint; j < body.first_joint + body.joints; ++j) {
    const Joint& joint = plan.joints[j];
    const auto axis = load3(w.xaxis + 3 * j), offset = com - load3(w.xanchor + 3 * j);
    const V3<V> none{V(0), V(0), V(0)};
    V* cdof = w.cdof + 6 * joint.dof;
    if (joint.type == mjJNT_SLIDE) store6(cdof, Spatial<V>{none, axis});
    if (joint.type == mjJNT_HINGE) store6(cdof, Spatial<V>{axis, cross(axis, offset)});
    if (joint.type == mjJNT_FREE) {
      for (int k = 0; k < 3; ++k, cdof += 6) store6(cdof, Spatial<V>{none, {V(k == 0), V(k == 1), V(k == 2)}});
    }
    if (joint.type == mjJNT_FREE || joint.type == mjJNT_BALL) {
      const auto mat = load9(w.xmat + 9 * body.id);
      for (int k = 0; k < 3; ++k, cdof += 6) store6(cdof, Spatial<V>{column(mat, k), cross(column(mat, k), offset)});
    }
  }
}

template <class V>
void com_pos(const Plan& plan, Work<V>& w) {
  centres_of_mass(plan, w);
  for (const Body& body : plan.bodies) inertia_about_centre(body, w), motions(plan, body, w);
  for (std::size_t i = 1; plan.fixed_inertias && i < plan.fixed.size(); ++i) inertia_about_centre(plan.fixed[i], w);
}

// Computes lengths and moment arms of spatial tendons between sites.
template <class V>
void straight_tendons(const Plan& plan, Work<V>& w) {
  for (std::size_t t = 0; t < plan.tendons.size(); ++t) {
    if (plan.tendons[t].spatial < 0) continue;
    w.ten_length[t] = V(0);
    for (const auto& term : plan.tendons[t].terms) w.ten_J[term.arm] = V(0);
  }
  for (const Segment& s : plan.segments) {
    V3<V> point[2];
    for (int end = 0; end < 2; ++end)
      point[end] = load3(w.xpos + 3 * s.body[end]) + load9(w.xmat + 9 * s.body[end]) * constant3<V>(s.pos[end]);
    V length;
    const auto along = normalized(point[1] - point[0], &length);
    w.ten_length[s.tendon] = w.ten_length[s.tendon] + length / V(s.divisor);
    for (const auto& [dof, place, end] : s.arms) {
      const auto cdof = load6(w.cdof + 6 * dof);
      const auto arm = point[end] - load3(w.subtree_com + 3 * s.root[end]);
      w.ten_J[place] = fma(V((end == 0 ? -1 : 1) / s.divisor), dot(along, cdof.t + cross(cdof.r, arm)), w.ten_J[place]);
    }
  }
}

// Computes the spatial tendons of models in which some wrap around geoms, in one lane after the other.
template <class V>
void wrapped_tendons(const Plan& plan, Work<V>& w) {
  for (int l = 0; l < V::width; ++l) {
    if (!(w.live >> l & 1)) continue;
    place_by_mujoco(plan, w, l);
    mj_comPos(w.models[l], w.data[l]), mj_tendon(w.models[l], w.data[l]);
    put(w.data[l]->ten_length, static_cast<int>(plan.model->ntendon), l, w.ten_length);
    put(w.data[l]->ten_J, static_cast<int>(plan.model->nJten), l, w.ten_J);
  }
}

template <class V>
void tendons(const Plan& plan, Work<V>& w) {
  if (plan.wraps) wrapped_tendons(plan, w);
  else straight_tendons(plan, w);
  for (std::size_t t = 0; t < plan.tendons.size(); ++t) {
    if (plan.tendons[t].spatial < 0) w.ten_length[t] = length_of(plan.tendons[t], w);
    w.ten_velocity[t] = velocity_of(plan.tendons[t], w);
  }
}

}  // namespace
}  // namespace headrace::lanes
