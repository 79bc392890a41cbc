// Forces of contacts on bodies and between bodies (mj_rnePostConstraint), and sensors.
#pragma once

#include "sense_contacts.hpp"

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
  for (const auto* each : {&plan.bodies, &plan.fixed})
    for (const Body& b : *each)
      if (plan.applied && b.id != 0) store6(w.cfrc_ext + 6 * b.id, applied_force(b, w));
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
void post_constraint(const Plan& plan, Work<V>& w, const V* qacc, bool inner) {
  contact_forces(plan, w);
  if (!inner) return;
  const Spatial<V> none{{V(0), V(0), V(0)}, {V(0), V(0), V(0)}};
  for (const Body& b : plan.fixed) store6(w.cacc + 6 * b.id, none);  // beside bias_acc
  for (const Body& b : plan.bodies) {
    auto acc = load6(w.cacc + 6 * b.parent);
    for (int i = b.first_dof; i < b.first_dof + b.dofs; ++i) acc = fma(qacc[i], load6(w.cdof + 6 * i), acc);
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

// Finds the place of something on a body. At the body's frame, or at its inertia's, MuJoCo reads no position of its own,
// which may differ.
template <class V>
void place_of(const Work<V>& w, int body, int sameframe, const mjtNum local[3], int l, mjtNum pos[3]) {
  if (sameframe == mjSAMEFRAME_BODY) return take(w.xpos + 3 * body, 3, l, pos);
  if (sameframe == mjSAMEFRAME_INERTIA) return take(w.xipos + 3 * body, 3, l, pos);
  mjtNum mat[9], middle[3];
  take(w.xmat + 9 * body, 9, l, mat), take(w.xpos + 3 * body, 3, l, middle);
  mju_mulMatVec3(pos, mat, local), mju_addTo3(pos, middle);
}

// A thing of the model that has a frame: a body, a body's inertia, a geom, a site or a camera.
struct Object {
  int type, id, body;
  int same = mjSAMEFRAME_NONE;  // mjtSameFrame: what it shares with its body or that body's inertia
  mjtByte* mjModel::* sameframe = nullptr;  // the same of each lane's model, where places differ
  mjtNum *mjModel::*pos = nullptr, *mjModel::*quat = nullptr;  // in its body

  Object(const mjModel& m, int type, int id) : type(type), id(id), body(id) {
    if (type == mjOBJ_XBODY) same = mjSAMEFRAME_BODY;
    if (type == mjOBJ_BODY) same = mjSAMEFRAME_INERTIA, quat = &mjModel::body_iquat;
    if (type == mjOBJ_GEOM) body = m.geom_bodyid[id], same = m.geom_sameframe[id], sameframe = &mjModel::geom_sameframe;
    if (type == mjOBJ_GEOM) pos = &mjModel::geom_pos, quat = &mjModel::geom_quat;
    if (type == mjOBJ_SITE) body = m.site_bodyid[id], same = m.site_sameframe[id], sameframe = &mjModel::site_sameframe;
    if (type == mjOBJ_SITE) pos = &mjModel::site_pos, quat = &mjModel::site_quat;
    if (type == mjOBJ_CAMERA) body = m.cam_bodyid[id], pos = &mjModel::cam_pos, quat = &mjModel::cam_quat;
  }
};

// Reads numbers of an object in the model, or in each lane's own.
template <class V>
void read_local(const Plan& plan, const Work<V>& w, const Object& o, mjtNum* mjModel::* field, int n, V* out) {
  for (int i = 0; i < n; ++i) {
    out[i] = V((plan.model.get()->*field)[n * o.id + i]);
    for (int l = 0; plan.own_places && l < V::width; ++l) lane(out[i], l) = (w.models[l]->*field)[n * o.id + i];
  }
}

template <class V>
V3<V> position(const Plan& plan, const Work<V>& w, const Object& o) {
  const bool differs = plan.own_places && o.sameframe;
  if (!differs && o.same == mjSAMEFRAME_BODY) return load3(w.xpos + 3 * o.body);
  if (!differs && o.same == mjSAMEFRAME_INERTIA) return load3(w.xipos + 3 * o.body);
  V local[3];
  read_local(plan, w, o, o.pos, 3, local);
  auto pos = load3(w.xpos + 3 * o.body) + load9(w.xmat + 9 * o.body) * load3(local);
  for (int l = 0; differs && l < V::width; ++l) {
    const mjModel& own = *w.models[l];
    mjtNum here[3];
    place_of(w, o.body, (own.*o.sameframe)[o.id], own.*o.pos + 3 * o.id, l, here);
    lane(pos.x, l) = here[0], lane(pos.y, l) = here[1], lane(pos.z, l) = here[2];
  }
  return pos;
}

// Returns the axes that something with such a frame has in common with its body, or its body's inertia; or null.
template <class V>
const V* common_axes(const Work<V>& w, int body, int same) {
  if (same == mjSAMEFRAME_BODY || same == mjSAMEFRAME_BODYROT) return w.xmat + 9 * body;
  return same == mjSAMEFRAME_INERTIA || same == mjSAMEFRAME_INERTIAROT ? w.ximat + 9 * body : nullptr;
}

template <class V>
Mat3<V> orientation(const Plan& plan, const Work<V>& w, const Object& o) {
  const bool differs = plan.own_places && o.sameframe;
  const V* common = differs ? nullptr : common_axes(w, o.body, o.same);
  if (common) return load9(common);
  V local[4], mat[9];
  read_local(plan, w, o, o.quat, 4, local);
  store9(mat, load9(w.xmat + 9 * o.body) * matrix_of(load4(local)));
  for (int l = 0; differs && l < V::width; ++l) {
    const V* own = common_axes(w, o.body, (w.models[l]->*o.sameframe)[o.id]);
    for (int i = 0; own && i < 9; ++i) lane(mat[i], l) = lane(own[i], l);
  }
  return load9(mat);
}

template <class V>
Quat<V> quaternion(const Plan& plan, const Work<V>& w, const Object& o) {
  const auto body = load4(w.xquat + 4 * o.body);
  if (o.type == mjOBJ_XBODY) return body;
  V local[4];
  read_local(plan, w, o, o.quat, 4, local);
  return body * load4(local);
}

// Returns a body's velocity or acceleration at a point.
template <class V>
Spatial<V> motion_at(const Plan& plan, const Work<V>& w, const V* motion, const Object& o, const V3<V>& point) {
  const auto here = load6(motion + 6 * o.body);
  const auto arm = point - load3(w.subtree_com + 3 * plan.model->body_rootid[o.body]);
  return {here.r, here.t + cross(here.r, arm)};
}

// Returns the acceleration of a point that an object's body carries (mj_objectAcceleration).
template <class V>
V3<V> acceleration(const Plan& plan, const Work<V>& w, const Object& o) {
  const auto point = position(plan, w, o);
  const auto velocity = motion_at(plan, w, w.cvel, o, point);
  return motion_at(plan, w, w.cacc, o, point).t + cross(velocity.r, velocity.t);
}

// Returns the force between a site's body and its parent, at the site and as it sees it.
template <class V>
Spatial<V> inner_force(const Plan& plan, const Work<V>& w, const Object& o) {
  const auto force = load6(w.cfrc_int + 6 * o.body);
  const auto arm = position(plan, w, o) - load3(w.subtree_com + 3 * plan.model->body_rootid[o.body]);
  const auto mat = orientation(plan, w, o);
  return {transposed(mat, force.r - cross(arm, force.t)), transposed(mat, force.t)};
}

// Returns the velocity of an object, or as another sees it that moves, too.
template <class V>
Spatial<V> velocity_of(const Plan& plan, const Work<V>& w, const Object& o, int reftype, int refid) {
  const auto point = position(plan, w, o);
  const auto velocity = motion_at(plan, w, w.cvel, o, point);
  if (refid < 0) return velocity;
  const Object other(*plan.model, reftype, refid);
  const auto from = position(plan, w, other);
  const auto moved = motion_at(plan, w, w.cvel, other, from);
  const auto mat = orientation(plan, w, other);
  const auto apart = (velocity.t - moved.t) + cross(point - from, moved.r);
  return {transposed(mat, velocity.r - moved.r), transposed(mat, apart)};
}

// Returns the sum of normal forces of contacts of a site's body whose lines of action meet the site.
template <class V>
V touch(const Plan& plan, const Work<V>& w, const Object& site) {
  const mjModel& m = *plan.model;
  V sum(0), pos[3], mat[9];
  store3(pos, position(plan, w, site)), store9(mat, orientation(plan, w, site));
  for (int a = 0; a < w.actives; ++a) {
    const Block& b = plan.blocks[w.active[a]];
    if (!is_contact(b) || (b.body[0] != site.body && b.body[1] != site.body)) continue;
    for (int l = 0; l < V::width; ++l) {
      const double force = lane(w.force[b.row], l);
      if (force <= 0) continue;
      mjtNum at[3], turned[9], point[3], ray[3];
      take(pos, 3, l, at), take(mat, 9, l, turned);
      take(w.contact_pos + 3 * w.active[a], 3, l, point), take(w.contact_frame + 9 * w.active[a], 3, l, ray);
      if (b.body[1] == site.body) mju_scl3(ray, ray, -1);
      if (mju_rayGeom(at, turned, m.site_size + 3 * site.id, point, ray, m.site_type[site.id], nullptr) >= 0)
        lane(sum, l) += force;
    }
  }
  return sum;
}

// Returns the momentum of a subtree: angular about its centre of mass, and linear (mj_subtreeVel).
template <class V>
Spatial<V> subtree_momentum(const Plan& plan, const Work<V>& w, int root) {
  const mjModel& m = *plan.model;
  const V3<V> none{V(0), V(0), V(0)};
  Spatial<V> sum{none, none};
  for (const Body& b : plan.bodies) {
    int above = b.id;
    while (above > root) above = m.body_parentid[above];
    if (above != root) continue;
    const auto momentum = inertia_times(w.cinert + 10 * b.id, load6(w.cvel + 6 * b.id));
    const auto arm = load3(w.subtree_com + 3 * b.root) - load3(w.subtree_com + 3 * root);
    sum = sum + Spatial<V>{momentum.r + cross(arm, momentum.t), momentum.t};
  }
  return sum;
}

// Returns a number of the first limit of a joint or tendon that holds: of its distance, velocity and force.
template <class V>
V limit(const Plan& plan, const Work<V>& w, int sensor) {
  const int type = plan.model->sensor_type[sensor], id = plan.model->sensor_objid[sensor];
  const bool joint = type <= mjSENS_JOINTLIMITFRC;
  V value(0);
  for (auto b = plan.blocks.rbegin(); b != plan.blocks.rend(); ++b) {
    const bool own = joint ? b->kind == Block::kLimit || b->kind == Block::kBallLimit : b->kind == Block::kTendonLimit;
    if (!own || b->source != id) continue;
    V velocity[6];
    times_jacobian(plan, *b, w, w.qvel, velocity);
    const V dist = w.dist[plan.blocks.rend() - b - 1];
    const V here = type == mjSENS_JOINTLIMITPOS || type == mjSENS_TENDONLIMITPOS   ? dist - V(b->margin)
                   : type == mjSENS_JOINTLIMITVEL || type == mjSENS_TENDONLIMITVEL ? velocity[0]
                                                                                   : w.force[b->row];
    value = select(holds(*b, dist), here, value);
  }
  return value;
}

template <class V>
V tendon_force(const Plan& plan, const Work<V>& w, int tendon) {
  const mjModel& m = *plan.model;
  V sum(0);
  for (int i = 0; i < m.nactuator; ++i)
    if (m.actuator_trntype[i] == mjTRN_TENDON && m.actuator_trnid[2 * i] == tendon)
      sum = sum + w.actuator_force[m.actuator_outadr[i]];
  return sum;
}

template <class V>
V3<V> axis_of(const Plan& plan, const Work<V>& w, int sensor, const Object& o) {
  const mjModel& m = *plan.model;
  const int type = m.sensor_type[sensor], refid = m.sensor_refid[sensor];
  const bool place = type == mjSENS_FRAMEPOS;
  auto value = place ? position(plan, w, o) : column(orientation(plan, w, o), type - mjSENS_FRAMEXAXIS);
  if (refid < 0) return value;
  const Object other(m, m.sensor_reftype[sensor], refid);
  if (place) value = value - position(plan, w, other);
  return transposed(orientation(plan, w, other), value);
}

template <class V>
Quat<V> turn_of(const Plan& plan, const Work<V>& w, int sensor, const Object& o) {
  const mjModel& m = *plan.model;
  const auto turn = quaternion(plan, w, o);
  if (m.sensor_refid[sensor] < 0) return turn;
  return conjugate(quaternion(plan, w, Object(m, m.sensor_reftype[sensor], m.sensor_refid[sensor]))) * turn;
}

// Writes what a sensor shows of the state, and of the forces on it.
template <class V>
void sense(const Plan& plan, Work<V>& w, int sensor, V* out) {
  const mjModel& m = *plan.model;
  const int id = m.sensor_objid[sensor], reftype = m.sensor_reftype[sensor], refid = m.sensor_refid[sensor];
  const auto type = static_cast<mjtSensor>(m.sensor_type[sensor]);
  const auto several = [&](const V* from, int n) { std::copy_n(from, n, out); };
  const Object o(m, m.sensor_objtype[sensor], id);
  switch (type) {
    case mjSENS_CONTACT: return sense_contacts(plan, w, plan.contact_sensors[plan.contact_sensor[sensor]]);
    case mjSENS_CLOCK:
      for (int l = 0; l < V::width; ++l) lane(out[0], l) = w.time[l];
      return;
    case mjSENS_JOINTPOS: return several(w.qpos + m.jnt_qposadr[id], 1);
    case mjSENS_JOINTVEL: return several(w.qvel + m.jnt_dofadr[id], 1);
    case mjSENS_BALLQUAT: return store4(out, normalized(load4(w.qpos + m.jnt_qposadr[id])));
    case mjSENS_BALLANGVEL: return several(w.qvel + m.jnt_dofadr[id], 3);
    case mjSENS_TENDONPOS: return several(w.ten_length + id, 1);
    case mjSENS_TENDONVEL: return several(w.ten_velocity + id, 1);
    case mjSENS_ACTUATORPOS: return several(w.actuator_length + m.actuator_outadr[id], m.sensor_dim[sensor]);
    case mjSENS_ACTUATORVEL: return several(w.actuator_velocity + m.actuator_outadr[id], m.sensor_dim[sensor]);
    case mjSENS_ACTUATORFRC: return several(w.actuator_force + m.actuator_outadr[id], m.sensor_dim[sensor]);
    case mjSENS_JOINTACTFRC: return several(w.qfrc_actuator + m.jnt_dofadr[id], 1);
    case mjSENS_TENDONACTFRC: return void(out[0] = tendon_force(plan, w, id));
    case mjSENS_JOINTLIMITPOS:
    case mjSENS_JOINTLIMITVEL:
    case mjSENS_JOINTLIMITFRC:
    case mjSENS_TENDONLIMITPOS:
    case mjSENS_TENDONLIMITVEL:
    case mjSENS_TENDONLIMITFRC: return void(out[0] = limit(plan, w, sensor));
    case mjSENS_SUBTREECOM: return several(w.subtree_com + 3 * id, 3);
    case mjSENS_SUBTREELINVEL:
      return store3(out, V(1) / max(V(kMinValue), number(w, kBodySubtreeMass, id, m.body_subtreemass[id])) *
                             subtree_momentum(plan, w, id).t);
    case mjSENS_SUBTREEANGMOM: return store3(out, subtree_momentum(plan, w, id).r);
    case mjSENS_MAGNETOMETER: return store3(out, transposed(orientation(plan, w, o), constant3<V>(m.opt.magnetic)));
    case mjSENS_TOUCH: return void(out[0] = touch(plan, w, o));
    case mjSENS_VELOCIMETER:
      return store3(out, transposed(orientation(plan, w, o), velocity_of(plan, w, o, reftype, -1).t));
    case mjSENS_GYRO: return store3(out, transposed(orientation(plan, w, o), velocity_of(plan, w, o, reftype, -1).r));
    case mjSENS_FRAMELINVEL: return store3(out, velocity_of(plan, w, o, reftype, refid).t);
    case mjSENS_FRAMEANGVEL: return store3(out, velocity_of(plan, w, o, reftype, refid).r);
    case mjSENS_ACCELEROMETER: return store3(out, transposed(orientation(plan, w, o), acceleration(plan, w, o)));
    case mjSENS_FORCE: return store3(out, inner_force(plan, w, o).t);
    case mjSENS_TORQUE: return store3(out, inner_force(plan, w, o).r);
    case mjSENS_FRAMELINACC: return store3(out, acceleration(plan, w, o));
    case mjSENS_FRAMEANGACC: return several(w.cacc + 6 * o.body, 3);
    case mjSENS_FRAMEQUAT: return store4(out, turn_of(plan, w, sensor, o));
    default: return store3(out, axis_of(plan, w, sensor, o));  // positions and axes of frames
  }
}

// Computes sensors, each clipped as the model says.
template <class V>
void sense(const Plan& plan, Work<V>& w, const std::vector<int>& sensors) {
  const mjModel& m = *plan.model;
  for (const int i : sensors) {
    V* out = w.sensordata + m.sensor_adr[i];
    sense(plan, w, i, out);
    const V most(m.sensor_cutoff[i]);
    if (m.sensor_cutoff[i] <= 0 || m.sensor_type[i] == mjSENS_CONTACT) continue;
    for (int k = 0; k < m.sensor_dim[i]; ++k) {
      if (m.sensor_datatype[i] == mjDATATYPE_REAL) out[k] = max(out[k], -most);
      if (m.sensor_datatype[i] <= mjDATATYPE_POSITIVE) out[k] = min(out[k], most);
    }
  }
}

}  // namespace
}  // namespace headrace::lanes
