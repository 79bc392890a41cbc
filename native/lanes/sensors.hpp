// Forces of contacts on bodies and between bodies (mj_rnePostConstraint), and the sensors that follow from them.
#pragma once

#include "solver.hpp"

namespace headrace::lanes {
namespace {

// Adds the forces of joined bodies on each other, about their trees' centres of mass.
template <class V>
void joined_forces(const Plan& plan, const Block& b, Work<V>& w) {
  const auto force = load3(w.force + b.row);
  V3<V> torque{V(0), V(0), V(0)};
  if (b.kind == Block::kWeld) {  // the Jacobian's transpose
    const auto rows = load3(w.force + b.row + 3);
    const auto [first, back] = orientations(b, w);
    const auto t = conjugate(back) * Quat<V>{V(0), rows.x, rows.y, rows.z} * conjugate(first);
    torque = (V(0.5) * torque_scale<V>(plan, b)) * V3<V>{t.x, t.y, t.z};
  }
  for (int side = 0; side < 2; ++side) {
    if (b.body[side] == 0) continue;
    const auto arm = anchor(b, w, side) - load3(w.subtree_com + 3 * b.root[side]);
    V* sum = w.cfrc_ext + 6 * b.body[side];
    store6(sum, fma(V(side == 0 ? 1 : -1), Spatial<V>{torque + cross(arm, force), force}, load6(sum)));
  }
}

// Adds the forces of contacts on bodies, about their trees' centres of mass.
template <class V>
void contact_forces(const Plan& plan, Work<V>& w) {
  for (int i = 0; i < 6 * static_cast<int>(plan.model->nbody); ++i) w.cfrc_ext[i] = V(0);
  for (int a = 0; a < w.actives; ++a) {
    const Block& b = plan.blocks[w.active[a]];
    if (joins_bodies(b)) joined_forces(plan, b, w);
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
void post_constraint(const Plan& plan, Work<V>& w) {
  contact_forces(plan, w);
  if (plan.sensors.empty()) return;
  const Spatial<V> none{{V(0), V(0), V(0)}, {V(0), V(0), V(0)}};
  for (const Body& b : plan.fixed) store6(w.cacc + 6 * b.id, none);  // beside bias_acc
  for (const Body& b : plan.bodies) {
    auto acc = load6(w.cacc + 6 * b.parent);
    for (int i = b.first_dof; i < b.first_dof + b.dofs; ++i) acc = fma(w.qacc[i], load6(w.cdof + 6 * i), acc);
    store6(w.cacc + 6 * b.id, acc);
  }
  const auto begin = [&](const Body& b) {
    V* acc = w.cacc + 6 * b.id;
    store6(acc, load6(acc) + load6(w.bias_acc + 6 * b.id));
    store6(w.cfrc_int + 6 * b.id, b.id == 0 ? none : force_on(b, load6(acc), w) - load6(w.cfrc_ext + 6 * b.id));
  };
  const auto add_to_parent = [&](const Body& b) {
    if (b.id != 0) store6(w.cfrc_int + 6 * b.parent, load6(w.cfrc_int + 6 * b.parent) + load6(w.cfrc_int + 6 * b.id));
  };
  std::for_each(plan.fixed.begin(), plan.fixed.end(), begin);
  std::for_each(plan.bodies.begin(), plan.bodies.end(), begin);
  std::for_each(plan.bodies.rbegin(), plan.bodies.rend(), add_to_parent);
  std::for_each(plan.fixed.rbegin(), plan.fixed.rend(), add_to_parent);
}

// Returns the sum of normal forces of contacts of a site's body whose lines of action meet the site.
template <class V>
mjtNum touch(const Plan& plan, const Work<V>& w, int site, int l, const mjtNum pos[3], const mjtNum mat[9]) {
  const mjModel& m = *plan.model;
  const int body = m.site_bodyid[site];
  mjtNum sum = 0;
  for (int a = 0; a < w.actives; ++a) {
    const Block& b = plan.blocks[w.active[a]];
    if (!is_contact(b) || (b.body[0] != body && b.body[1] != body)) continue;
    const double force = lane(w.force[b.row], l);
    if (force <= 0) continue;
    mjtNum point[3], ray[3];
    take(w.contact_pos + 3 * w.active[a], 3, l, point), take(w.contact_frame + 9 * w.active[a], 3, l, ray);
    if (b.body[1] == body) mju_scl3(ray, ray, -1);
    if (mju_rayGeom(pos, mat, m.site_size + 3 * site, point, ray, m.site_type[site], nullptr) >= 0) sum += force;
  }
  return sum;
}

// Returns whether something stands at its body's frame, or at its inertia's. Then MuJoCo reads no position of its own,
// which may differ.
inline bool is_at_frame(int sameframe) { return sameframe == mjSAMEFRAME_BODY || sameframe == mjSAMEFRAME_INERTIA; }

// The pose of a site in one lane, whose model may place the site otherwise than another's.
struct SitePose {
  mjtNum pos[3], mat[9], com[3];  // the last is its tree's centre of mass

  template <class V>
  SitePose(const Plan& plan, const mjModel& m, const Work<V>& w, int site, int l) {
    const int body = m.site_bodyid[site];
    mjtNum body_pos[3], body_mat[9], local[9];
    take(w.xpos + 3 * body, 3, l, body_pos), take(w.xmat + 9 * body, 9, l, body_mat);
    take(w.subtree_com + 3 * m.body_rootid[body], 3, l, com);
    const mjModel& from = is_at_frame(m.site_sameframe[site]) ? *plan.model : m;
    mju_mulMatVec3(pos, body_mat, from.site_pos + 3 * site), mju_addTo3(pos, body_pos);
    mju_quat2Mat(local, m.site_quat + 4 * site), mju_mulMatMat(mat, body_mat, local, 3, 3, 3);
  }
};

// Returns a spatial vector of a body as a site sees it.
template <class V>
void at_site(const SitePose& site, const V* spatial, int l, bool force, mjtNum out[6]) {
  mjtNum here[6];
  take(spatial, 6, l, here);
  mju_transformSpatial(out, here, force, site.pos, site.com, site.mat);
}

// Computes a sensor of accelerations or forces, in one lane.
template <class V>
void sense(const Plan& plan, const Work<V>& w, int sensor, int l, mjtNum* out) {
  const mjModel& m = *plan.model;
  const int id = m.sensor_objid[sensor], body = m.site_bodyid[id], type = m.sensor_type[sensor];
  const SitePose site(plan, m, w, id, l);
  if (type == mjSENS_TOUCH) return void(out[0] = touch(plan, w, id, l, site.pos, site.mat));
  mjtNum value[6];
  if (type != mjSENS_ACCELEROMETER) {
    at_site(site, w.cfrc_int + 6 * body, l, true, value);
    return mju_copy3(out, value + (type == mjSENS_FORCE ? 3 : 0));
  }
  mjtNum velocity[6], turning[3];
  at_site(site, w.cacc + 6 * body, l, false, value), at_site(site, w.cvel + 6 * body, l, false, velocity);
  mju_cross(turning, velocity, velocity + 3);
  mju_add3(out, value + 3, turning);
}

// Computes the velocity of a subtree's centre of mass (mj_subtreeVel).
template <class V>
void subtree_velocity(const Plan& plan, const Work<V>& w, int root, int l, mjtNum out[3]) {
  const mjModel& m = *plan.model;
  V3<V> momentum{V(0), V(0), V(0)};
  for (const Body& b : plan.bodies) {
    int above = b.id;
    while (above > root) above = m.body_parentid[above];
    if (above != root) continue;
    const auto vel = load6(w.cvel + 6 * b.id);
    const auto arm = load3(w.xipos + 3 * b.id) - load3(w.subtree_com + 3 * b.root);
    momentum = fma(V(b.mass), vel.t + cross(vel.r, arm), momentum);
  }
  V sum[3];
  store3(sum, V(1 / std::fmax(kMinValue, m.body_subtreemass[root])) * momentum);
  take(sum, 3, l, out);
}

// Computes a sensor of the new state's positions or velocities, in one lane; `own` is the lane's model.
template <class V>
void sense_new(const Plan& plan, const mjModel& own, const Work<V>& w, int sensor, int l, mjtNum* out) {
  const mjModel& m = *plan.model;
  const int id = m.sensor_objid[sensor];
  mjtNum velocity[6];
  switch (m.sensor_type[sensor]) {
    case mjSENS_JOINTPOS: return take(w.qpos + m.jnt_qposadr[id], 1, l, out);
    case mjSENS_JOINTVEL: return take(w.qvel + m.jnt_dofadr[id], 1, l, out);
    case mjSENS_SUBTREECOM: return take(w.subtree_com + 3 * id, 3, l, out);
    case mjSENS_SUBTREELINVEL: return subtree_velocity(plan, w, id, l, out);
    case mjSENS_FRAMEPOS: return mju_copy3(out, SitePose(plan, own, w, id, l).pos);
    default:  // velocimeters and gyroscopes
      at_site(SitePose(plan, own, w, id, l), w.cvel + 6 * m.site_bodyid[id], l, false, velocity);
      return mju_copy3(out, velocity + (m.sensor_type[sensor] == mjSENS_VELOCIMETER ? 3 : 0));
  }
}

}  // namespace
}  // namespace headrace::lanes
