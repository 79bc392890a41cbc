#include "plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "check.hpp"
#include "contact_sensors.hpp"
#include "contacts.hpp"

namespace headrace::lanes {
namespace {

template <std::size_t N>
void copy(double (&to)[N], const mjtNum* from) {
  std::copy_n(from, N, to);
}

// Returns the poses of the bodies that cannot move.
std::unique_ptr<mjData, decltype(&mj_deleteData)> rest(const mjModel& m) {
  std::unique_ptr<mjData, decltype(&mj_deleteData)> data(mj_makeData(&m), &mj_deleteData);
  if (!data) throw std::runtime_error("MuJoCo found no memory for a simulation");
  mj_kinematics(&m, data.get());
  return data;
}

bool moves(const mjModel& m, int body) {
  return m.body_weldid[body] != 0;  // mocap bodies are not welded to the world
}

// Returns whether a body floats, and everything that it carries is fixed to it.
bool spins_freely(const mjModel& m, int body) {
  return m.body_jntnum[body] == 1 && m.jnt_type[m.body_jntadr[body]] == mjJNT_FREE &&
         m.tree_dofnum[m.body_treeid[body]] == 6;
}

Joint joint_of(const mjModel& m, int j) {
  Joint joint{};
  joint.type = m.jnt_type[j], joint.qpos = m.jnt_qposadr[j], joint.dof = m.jnt_dofadr[j];
  copy(joint.pos, m.jnt_pos + 3 * j), copy(joint.axis, m.jnt_axis + 3 * j);
  joint.ref = m.qpos0[joint.qpos];
  joint.stiffness = m.opt.disableflags & mjDSBL_SPRING ? 0 : m.jnt_stiffness[j];
  joint.spring_ref = m.qpos_spring[joint.qpos];
  return joint;
}

Body body_of(const mjModel& m, int b) {
  Body body{};
  body.id = b, body.parent = m.body_parentid[b], body.root = m.body_rootid[b];
  body.first_joint = m.body_jntadr[b], body.joints = m.body_jntnum[b];
  body.first_dof = m.body_dofadr[b], body.dofs = m.body_dofnum[b];
  body.mocap = m.body_mocapid[b];
  copy(body.pos, m.body_pos + 3 * b), copy(body.quat, m.body_quat + 4 * b);
  body.turned = body.quat[0] != 1;
  copy(body.ipos, m.body_ipos + 3 * b), copy(body.inertia, m.body_inertia + 3 * b);
  mju_quat2Mat(body.imat, m.body_iquat + 4 * b);
  body.tilted = m.body_iquat[4 * b] != 1;
  body.mass = m.body_mass[b], body.subtree_mass = m.body_subtreemass[b];
  const double trace = body.inertia[0] + body.inertia[1] + body.inertia[2];
  for (int i = 0; i < 3; ++i)  // see mj_inertiaBoxFluidModel
    body.box[i] = body.mass < mjMINVAL ? 0 : std::sqrt(std::max(mjMINVAL, trace - 2 * body.inertia[i]) / body.mass * 6);
  return body;
}

void read_tree(Plan& plan, const mjModel& m) {
  const auto data = rest(m);
  for (int j = 0; j < m.njnt; ++j) plan.joints.push_back(joint_of(m, j));
  for (int b = 0; b < m.nbody; ++b) {
    if (moves(m, b)) {
      plan.bodies.push_back(body_of(m, b));
      if (m.body_rootid[b] == b || !moves(m, m.body_parentid[b])) plan.trees.push_back(b);
      if (m.opt.integrator == mjINT_IMPLICITFAST && spins_freely(m, b)) plan.spinning.push_back(plan.bodies.back());
      continue;
    }
    plan.fixed.push_back(body_of(m, b));
    for (auto [field, n] : {std::pair{data->xpos, 3}, {data->xquat, 4}, {data->xmat, 9}})
      plan.fixed_pose.insert(plan.fixed_pose.end(), field + n * b, field + n * (b + 1));
  }
  const bool damps = !(m.opt.disableflags & mjDSBL_DAMPER);
  for (int i = 0; i < m.nv; ++i) {
    plan.armature.push_back(m.dof_armature[i]);
    plan.damping.push_back(damps ? m.dof_damping[i] : 0);
    for (int j = 0; j < m.M_rownnz[i]; ++j) plan.mass.columns[i] |= std::uint64_t{1} << m.M_colind[m.M_rowadr[i] + j];
  }
  for (const Body& body :
       plan.spinning)  // a tendon's damping joins degrees of freedom that a diagonal inertia does not
    for (int i = body.first_dof; i < body.first_dof + 6; ++i)
      for (int j = body.first_dof; j <= i; ++j) plan.mass.columns[i] |= std::uint64_t{1} << j;
  plan.damped = m.opt.integrator == mjINT_IMPLICITFAST ||
                (m.opt.integrator == mjINT_EULER && !(m.opt.disableflags & mjDSBL_EULERDAMP) &&
                 (plan.own[kDofDamping] || std::ranges::any_of(plan.damping, [](double d) { return d > 0; })));
  plan.mass.size = m.nv;
  plan.mass.complete();
}

Combination tendon_of(const mjModel& m, int t) {
  Combination tendon;
  if (m.wrap_type[m.tendon_adr[t]] == mjWRAP_JOINT) {
    for (int w = m.tendon_adr[t]; w < m.tendon_adr[t] + m.tendon_num[t]; ++w) {
      const int j = m.wrap_objid[w];
      tendon.terms.push_back({m.jnt_qposadr[j], m.jnt_dofadr[j], m.wrap_prm[w], w});
    }
  } else {
    tendon.spatial = t;
    for (int i = m.ten_J_rowadr[t]; i < m.ten_J_rowadr[t] + m.ten_J_rownnz[t]; ++i)
      tendon.terms.push_back({-1, m.ten_J_colind[i], 1, -1, 1, i});
  }
  if (!(m.opt.disableflags & mjDSBL_SPRING)) tendon.stiffness = m.tendon_stiffness[t];
  if (!(m.opt.disableflags & mjDSBL_DAMPER)) tendon.damping = m.tendon_damping[t];
  tendon.spring_low = m.tendon_lengthspring[2 * t], tendon.spring_high = m.tendon_lengthspring[2 * t + 1];
  return tendon;
}

Segment segment_of(const mjModel& m, int tendon, double divisor, int site1, int site2) {
  Segment s{};
  s.tendon = tendon, s.divisor = divisor;
  std::vector<int> dofs[2];
  for (int end = 0; end < 2; ++end) {
    const int site = end == 0 ? site1 : site2;
    s.body[end] = m.site_bodyid[site], s.root[end] = m.body_rootid[s.body[end]];
    copy(s.pos[end], m.site_pos + 3 * site);
    dofs[end] = dofs_above(m, s.body[end]);
  }
  for (int i = m.ten_J_rowadr[tendon]; i < m.ten_J_rowadr[tendon] + m.ten_J_rownnz[tendon]; ++i) {
    const int dof = m.ten_J_colind[i];
    const bool first = std::ranges::binary_search(dofs[0], dof), second = std::ranges::binary_search(dofs[1], dof);
    if (first != second)
      s.arms.push_back({dof, i, second});  // a degree of freedom that moves both ends does not change the length
  }
  return s;
}

// Adds the straight pieces of a spatial tendon, or notes that it wraps.
void read_path(Plan& plan, const mjModel& m, int t) {
  double divisor = 1;
  for (int w = m.tendon_adr[t]; w < m.tendon_adr[t] + m.tendon_num[t]; ++w) {
    if (m.wrap_type[w] == mjWRAP_PULLEY) divisor = m.wrap_prm[w];
    plan.wraps |= m.wrap_type[w] == mjWRAP_SPHERE || m.wrap_type[w] == mjWRAP_CYLINDER;
    const bool last = w + 1 == m.tendon_adr[t] + m.tendon_num[t];
    if (!last && m.wrap_type[w] == mjWRAP_SITE && m.wrap_type[w + 1] == mjWRAP_SITE)
      plan.segments.push_back(segment_of(m, t, divisor, m.wrap_objid[w], m.wrap_objid[w + 1]));
  }
}

Actuator actuator_of(const mjModel& m, const Plan& plan, int i) {
  Actuator a{};
  a.id = i, a.joint_limit = -1;
  const int out = m.actuator_outadr[i], target = m.actuator_trnid[2 * i];
  const double gear = m.actuator_gear[6 * out];
  if (m.actuator_trntype[i] == mjTRN_TENDON) {
    const Combination& tendon = plan.tendons[static_cast<std::size_t>(target)];
    a.transmission.terms = tendon.terms, a.transmission.spatial = tendon.spatial, a.transmission.gear = gear;
    for (auto& term : a.transmission.terms) term.coefficient *= gear, term.gear = gear;
  } else {
    a.transmission.terms = {{m.jnt_qposadr[target], m.jnt_dofadr[target], gear}};
    const auto limit = std::ranges::find(plan.force_limits, m.jnt_dofadr[target], &Plan::Limit::dof);
    if (limit != plan.force_limits.end()) a.joint_limit = static_cast<int>(limit - plan.force_limits.begin());
  }
  if (m.actuator_gaintype[i] == mjGAIN_FIXED) a.gain[0] = m.actuator_gainprm[mjNGAIN * i];
  else copy(a.gain, m.actuator_gainprm + mjNGAIN * i);
  if (m.actuator_biastype[i] == mjBIAS_AFFINE) copy(a.bias, m.actuator_biasprm + mjNBIAS * i);
  a.affine[0] = m.actuator_gaintype[i] == mjGAIN_AFFINE, a.affine[1] = m.actuator_biastype[i] == mjBIAS_AFFINE;
  const bool any = (plan.own[kActuatorGainprm] && a.affine[0]) || (plan.own[kActuatorBiasprm] && a.affine[1]);
  a.damps = any || a.gain[2] != 0 || a.bias[2] != 0;
  a.by_state = a.damps || a.gain[1] != 0 || a.bias[1] != 0;
  a.ctrl = m.actuator_ctrladr[i], a.act = m.actuator_actadr[i];
  a.dynamics = m.actuator_dyntype[i];
  a.tau = std::max(mjMINVAL, m.actuator_dynprm[mjNDYN * i]);
  a.decay = 1 - std::exp(-m.opt.timestep / a.tau);
  a.ctrl_limited = m.actuator_ctrllimited[a.ctrl], a.act_limited = m.actuator_actlimited[i];
  a.act_early = m.actuator_actearly[i], a.force_limited = m.actuator_forcelimited[i];
  copy(a.ctrl_range, m.actuator_ctrlrange + 2 * a.ctrl), copy(a.act_range, m.actuator_actrange + 2 * i);
  copy(a.force_range, m.actuator_forcerange + 2 * i);
  return a;
}

void read_forces(Plan& plan, const mjModel& m) {
  for (int t = 0; t < m.ntendon; ++t) {
    plan.tendons.push_back(tendon_of(m, t));
    if (plan.tendons.back().spatial >= 0) read_path(plan, m, t);
  }
  if (m.nactuator == 0 || m.opt.disableflags & mjDSBL_ACTUATION) return;
  for (int j = 0; j < m.njnt; ++j)
    if (m.jnt_actfrclimited[j])
      plan.force_limits.push_back({m.jnt_dofadr[j], {m.jnt_actfrcrange[2 * j], m.jnt_actfrcrange[2 * j + 1]}});
  for (int i = 0; i < m.nactuator; ++i) plan.actuators.push_back(actuator_of(m, plan, i));
}

const std::vector<std::pair<std::string, Shown>>& shown_fields() {
  static const std::vector<std::pair<std::string, Shown>> known = {{"qacc", Shown::qacc},
                                                                   {"xpos", Shown::xpos},
                                                                   {"xquat", Shown::xquat},
                                                                   {"xmat", Shown::xmat},
                                                                   {"xipos", Shown::xipos},
                                                                   {"ximat", Shown::ximat},
                                                                   {"site_xpos", Shown::site_xpos},
                                                                   {"site_xmat", Shown::site_xmat},
                                                                   {"geom_xpos", Shown::geom_xpos},
                                                                   {"geom_xmat", Shown::geom_xmat},
                                                                   {"ten_length", Shown::ten_length},
                                                                   {"ten_velocity", Shown::ten_velocity},
                                                                   {"subtree_com", Shown::subtree_com},
                                                                   {"cinert", Shown::cinert},
                                                                   {"cvel", Shown::cvel},
                                                                   {"cdof", Shown::cdof},
                                                                   {"qfrc_actuator", Shown::qfrc_actuator},
                                                                   {"actuator_force", Shown::actuator_force},
                                                                   {"qfrc_constraint", Shown::qfrc_constraint},
                                                                   {"cfrc_ext", Shown::cfrc_ext},
                                                                   {"ncon", Shown::ncon},
                                                                   {"act_dot", Shown::act_dot},
                                                                   {"actuator_length", Shown::actuator_length},
                                                                   {"actuator_velocity", Shown::actuator_velocity},
                                                                   {"qfrc_bias", Shown::qfrc_bias},
                                                                   {"qfrc_passive", Shown::qfrc_passive},
                                                                   {"cacc", Shown::cacc},
                                                                   {"cfrc_int", Shown::cfrc_int}};
  return known;
}

bool senses(const mjModel& m, const std::vector<int>& sensors, std::initializer_list<int> types) {
  return std::ranges::any_of(sensors, [&](int i) { return std::ranges::count(types, m.sensor_type[i]) > 0; });
}

// Finds which centres of mass and inertias of bodies that cannot move somebody reads.
void read_fixed(Plan& plan, const mjModel& m) {
  const auto shows = [&](Shown field) {
    return std::ranges::count(plan.shown, field) + std::ranges::count(plan.shown_new, field) > 0;
  };
  const bool carries =
      std::ranges::any_of(plan.bodies, [&](const Body& b) { return b.parent != 0 && !moves(m, b.parent); });
  const bool several = plan.fixed.size() > 1;  // the world has no inertia, and feels no force
  const bool loaded = std::ranges::any_of(plan.sensors, [&](int i) {
    const int type = m.sensor_type[i];
    return (type == mjSENS_FORCE || type == mjSENS_TORQUE) && !moves(m, m.site_bodyid[m.sensor_objid[i]]);
  });
  bool centres = false;
  for (const auto* sensors : {&plan.sensors, &plan.new_sensors})
    centres |= senses(m, *sensors, {mjSENS_SUBTREECOM, mjSENS_SUBTREEANGMOM});
  plan.fixed_inertias = several && (loaded || shows(Shown::cinert) || shows(Shown::cfrc_int));
  plan.fixed_centres = carries || loaded || centres || plan.fixed_inertias || (several && shows(Shown::cfrc_ext)) ||
                       shows(Shown::subtree_com);
}

// Finds what sensors and fields that are read need beside a step.
void read_needs(Plan& plan, const mjModel& m) {
  const auto shows = [](const std::vector<Shown>& fields, std::initializer_list<Shown> any) {
    return std::ranges::any_of(fields, [&](Shown field) { return std::ranges::count(any, field) > 0; });
  };
  plan.senses_bodies = senses(
      m, plan.sensors, {mjSENS_ACCELEROMETER, mjSENS_FORCE, mjSENS_TORQUE, mjSENS_FRAMELINACC, mjSENS_FRAMEANGACC});
  plan.senses_forces =
      plan.senses_bodies ||
      senses(m, plan.sensors, {mjSENS_TOUCH, mjSENS_CONTACT, mjSENS_JOINTLIMITFRC, mjSENS_TENDONLIMITFRC});
  plan.shows_bodies = shows(plan.shown, {Shown::cfrc_ext, Shown::cacc, Shown::cfrc_int});
  plan.shows_forces = plan.shows_bodies || shows(plan.shown, {Shown::qfrc_constraint});
  plan.inner_forces = shows(plan.shown, {Shown::cacc, Shown::cfrc_int});
  plan.new_limits = senses(m, plan.new_sensors,
                           {mjSENS_JOINTLIMITPOS, mjSENS_JOINTLIMITVEL, mjSENS_TENDONLIMITPOS, mjSENS_TENDONLIMITVEL});
  plan.new_contacts = senses(m, plan.new_sensors, {mjSENS_CONTACT}) || shows(plan.shown_new, {Shown::ncon});
  plan.new_bias = shows(plan.shown_new, {Shown::qfrc_bias});
  plan.new_passive = shows(plan.shown_new, {Shown::qfrc_passive});
  for (const auto* sensors : {&plan.sensors, &plan.new_sensors})
    plan.lengths |= senses(m, *sensors, {mjSENS_ACTUATORPOS, mjSENS_ACTUATORVEL});
  for (const auto* fields : {&plan.shown, &plan.shown_new})
    plan.lengths |= shows(*fields, {Shown::actuator_length, Shown::actuator_velocity});
}

void read_shown(Plan& plan, const Wanted& wanted) {
  const mjModel& m = *plan.model;
  plan.kinematics = wanted.kinematics && left_to_mujoco(m, wanted).empty();
  const bool all = wants_all(m, wanted);
  const auto is_after = [&](const std::string& field) { return is_renewed(field) || (all && field == "ncon"); };
  for (const auto& field : wanted.fields)
    for (const auto& [name, shown] : shown_fields()) {
      if (field != name || (wanted.kinematics && !plan.kinematics && is_after(field))) continue;
      const bool forces = shown == Shown::cfrc_ext || shown == Shown::cacc || shown == Shown::cfrc_int;
      if (forces && !wanted.forces) continue;  // it stays zero
      (plan.kinematics && is_after(field) ? plan.shown_new : plan.shown).push_back(shown);
    }
  for (int i = 0; i < m.nsensor; ++i) {
    if (!is_read(m, wanted, i)) continue;
    if (m.sensor_needstage[i] == mjSTAGE_ACC || !wanted.kinematics) plan.sensors.push_back(i);
    else if (plan.kinematics) plan.new_sensors.push_back(i);
  }
  read_contact_sensors(plan);
  read_needs(plan, m);
  read_fixed(plan, m);
}

}  // namespace

bool is_computed(const mjModel& m, std::string_view field) {
  if (field == "actuator_length" || field == "actuator_velocity") return !(m.opt.disableflags & mjDSBL_ACTUATION);
  if (field == "qfrc_bias" || field == "qfrc_passive") return m.opt.density == 0 && m.opt.viscosity == 0;
  return std::ranges::any_of(shown_fields(), [&](const auto& known) { return known.first == field; });
}

std::shared_ptr<const Plan> read_plan(std::shared_ptr<const mjModel> model, const Wanted& wanted) {
  const mjModel& m = *model;
  check_model(m);
  check_wanted(m, wanted);
  auto plan = std::make_shared<Plan>();
  plan->model = model;
  plan->density = m.opt.density, plan->viscosity = m.opt.viscosity;
  copy(plan->wind, m.opt.wind);
  plan->integrator = m.opt.integrator, plan->timestep = m.opt.timestep;
  for (int i = 0; i < 3; ++i) plan->gravity[i] = m.opt.disableflags & mjDSBL_GRAVITY ? 0 : m.opt.gravity[i];
  plan->applied = std::ranges::any_of(
      wanted.fields, [](const auto& field) { return field == "qfrc_applied" || field == "xfrc_applied"; });
  plan->clamps_ctrl = !(m.opt.disableflags & mjDSBL_CLAMPCTRL);
  plan->impratio = std::max(mjMINVAL, m.opt.impratio);
  plan->scale = 1 / (m.stat.meaninertia * std::max(1, static_cast<int>(m.nv)));
  read_varying(*plan, wanted);
  read_tree(*plan, m);
  read_forces(*plan, m);
  read_constraints(*plan, m);
  read_shown(*plan, wanted);
  check_varying(*plan, wanted);
  return plan;
}

}  // namespace headrace::lanes
