#include "check.hpp"

#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "contact_sensors.hpp"
#include "contacts.hpp"
#include "pattern.hpp"

namespace headrace::lanes {
namespace {

void refuse_if(bool unfit, const std::string& what) {
  if (unfit) throw Unsupported(what);
}

// "geom 7 'table'".
std::string named(const mjModel& m, int type, const char* kind, int id) {
  const char* name = mj_id2name(&m, type, id);
  return std::string(kind) + ' ' + std::to_string(id) + (name && *name ? std::string(" '") + name + "'" : "");
}

bool any(const mjtNum* values, mjtSize n) {
  return std::any_of(values, values + n, [](mjtNum x) { return x != 0; });
}

void check_options(const mjModel& m) {
  refuse_if(m.nv == 0, "the model has no degree of freedom");
  refuse_if(m.nv > Pattern::kMost,
            std::to_string(m.nv) + " degrees of freedom, of at most " + std::to_string(Pattern::kMost));
  const bool fast = m.opt.integrator == mjINT_IMPLICITFAST, fluid = m.opt.density != 0 || m.opt.viscosity != 0;
  refuse_if(m.opt.integrator == mjINT_IMPLICIT, "the integrator is implicit");
  refuse_if(m.opt.integrator > mjINT_IMPLICITFAST, "the integrator is discrete");
  refuse_if(fast && fluid, "a fluid under implicitfast");
  refuse_if(m.opt.enableflags & ~(mjENBL_ENERGY | mjENBL_FWDINV), "flags that change physics are enabled");
  refuse_if(m.opt.noslip_iterations > 0, "noslip iterations");
  for (int g = 0; g < m.ngeom && fluid; ++g)
    refuse_if(m.geom_fluid[mjNFLUID * g] > 0, named(m, mjOBJ_GEOM, "geom", g) + ": an ellipsoid in a fluid");
  refuse_if(m.flg_gravcomp, "gravity compensation");
  refuse_if(m.flg_surfacevel, "surfaces that move");
  refuse_if(m.flg_adhesion, "adhesion");
  refuse_if(m.nflex > 0, "flexes");
  refuse_if(m.nplugin > 0, "plugins");
  refuse_if(m.nhistory > 0, "delays");
  refuse_if(m.nuserdata > 0, "user data");
  if (const char* name = callback()) throw Unsupported(std::string("the callback ") + name + " is set");
}

void check_joints(const mjModel& m) {
  for (int j = 0; j < m.njnt; ++j) {
    const auto joint = named(m, mjOBJ_JOINT, "joint", j);
    refuse_if(any(m.jnt_stiffnesspoly + mjNPOLY * j, mjNPOLY), joint + ": stiffness that is a polynomial");
    refuse_if(m.jnt_stiffness[j] != 0 && (m.jnt_type[j] == mjJNT_FREE || m.jnt_type[j] == mjJNT_BALL),
              joint + ": its spring");
    refuse_if(m.jnt_plasticadr[j] >= 0, joint + ": a spring that yields");
  }
  refuse_if(any(m.dof_dampingpoly, mjNPOLY * m.nv), "damping that is a polynomial");
  for (int e = 0; e < m.neq; ++e)
    refuse_if(!(m.opt.disableflags & mjDSBL_EQUALITY) && m.eq_type[e] > mjEQ_TENDON,
              named(m, mjOBJ_EQUALITY, "equality", e) + ": an equality of a flex");
  for (int t = 0; t < m.ntendon; ++t) {
    const auto tendon = named(m, mjOBJ_TENDON, "tendon", t);
    refuse_if(m.tendon_armature[t] != 0, tendon + ": armature");
    refuse_if(m.tendon_actfrclimited[t], tendon + ": a limit of its actuators' force");
    refuse_if(m.tendon_plasticadr[t] >= 0, tendon + ": a spring that yields");
    refuse_if(any(m.tendon_stiffnesspoly + mjNPOLY * t, mjNPOLY) || any(m.tendon_dampingpoly + mjNPOLY * t, mjNPOLY),
              tendon + ": stiffness or damping that is a polynomial");
  }
}

void check_actuators(const mjModel& m) {
  for (int i = 0; i < m.nactuator; ++i) {
    const auto actuator = named(m, mjOBJ_ACTUATOR, "actuator", i);
    const int type = m.actuator_trntype[i], target = m.actuator_trnid[2 * i];
    const bool turns = (type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT) &&
                       (m.jnt_type[target] == mjJNT_HINGE || m.jnt_type[target] == mjJNT_SLIDE);
    refuse_if(!turns && type != mjTRN_TENDON,
              actuator + ": a transmission to anything but a hinge, a slide or a tendon");
    refuse_if(m.actuator_gaintype[i] != mjGAIN_FIXED && m.actuator_gaintype[i] != mjGAIN_AFFINE,
              actuator + ": its gain");
    refuse_if(m.actuator_biastype[i] != mjBIAS_NONE && m.actuator_biastype[i] != mjBIAS_AFFINE,
              actuator + ": its bias");
    const int dynamics = m.actuator_dyntype[i];
    refuse_if(dynamics != mjDYN_NONE && dynamics != mjDYN_INTEGRATOR && dynamics != mjDYN_FILTER &&
                  dynamics != mjDYN_FILTEREXACT,
              actuator + ": its dynamics");
    refuse_if(m.actuator_actnum[i] > 1 || m.actuator_ctrlnum[i] != 1, actuator + ": more than one control or state");
    refuse_if(
        m.actuator_armature[i] != 0 || m.actuator_damping[i] != 0 || any(m.actuator_dampingpoly + mjNPOLY * i, mjNPOLY),
        actuator + ": armature or damping");
    refuse_if(m.actuator_group[i] >= 0 && m.actuator_group[i] < 31 && m.opt.disableactuator >> m.actuator_group[i] & 1,
              actuator + ": it is disabled");
  }
}

const std::unordered_set<std::string_view>& model_fields() {
  static const std::unordered_set<std::string_view> names = {
#define X(type, name, nr, nc) #name,
      MJMODEL_POINTERS
#undef X
  };
  return names;
}

}  // namespace

bool is_read(const mjModel& m, const Wanted& wanted, int sensor) {
  if (m.opt.disableflags & mjDSBL_SENSOR) return false;  // no sensor is computed
  if (!std::ranges::count(wanted.fields, "sensordata")) return false;
  const char* name = mj_id2name(&m, mjOBJ_SENSOR, sensor);
  return wanted.sensors.empty() || (name && std::ranges::count(wanted.sensors, name));
}

namespace {

bool has_spatial_tendons(const mjModel& m) {
  return std::any_of(m.wrap_type, m.wrap_type + m.nwrap, [](int type) { return type != mjWRAP_JOINT; });
}

// Sensors belong to the beginning of the last step, or to the new state; of the latter libmujoco may compute some.
void check_sensors(const mjModel& m, const Wanted& wanted) {
  for (int i = 0; i < m.nsensor; ++i) {
    if (!is_read(m, wanted, i) || (wanted.kinematics && m.sensor_needstage[i] != mjSTAGE_ACC)) continue;
    const auto sensor = named(m, mjOBJ_SENSOR, "sensor", i);
    const int type = m.sensor_type[i];
    refuse_if(!is_computed(m, i), sensor + ": its kind");
    refuse_if((type == mjSENS_FORCE || type == mjSENS_TORQUE) && has_spatial_tendons(m),
              sensor + ": forces between bodies beside spatial tendons");
  }
}

}  // namespace

const char* callback() {
  if (mjcb_passive) return "mjcb_passive";
  if (mjcb_control) return "mjcb_control";
  if (mjcb_contactfilter) return "mjcb_contactfilter";
  if (mjcb_sensor) return "mjcb_sensor";
  if (mjcb_act_dyn) return "mjcb_act_dyn";
  if (mjcb_act_gain) return "mjcb_act_gain";
  return mjcb_act_bias ? "mjcb_act_bias" : nullptr;
}

bool is_renewed(const std::string& field) {
  static const std::unordered_set<std::string_view> names = {
      "xpos",       "xquat",     "xmat",           "xipos",          "xiquat",      "ximat",      "xanchor",
      "xaxis",      "geom_xpos", "geom_xquat",     "geom_xmat",      "site_xpos",   "site_xquat", "site_xmat",
      "cam_xpos",   "cam_xmat",  "light_xpos",     "light_xdir",     "subtree_com", "cdof",       "cinert",
      "ten_length", "ten_J",     "ten_wrapadr",    "ten_wrapnum",    "wrap_obj",    "wrap_xpos",  "ten_velocity",
      "cvel",       "cdof_dot",  "subtree_linvel", "subtree_angmom", "sensordata"};
  return names.contains(field) || takes_all(field);
}

bool takes_all(const std::string& field) {
  static const std::unordered_set<std::string_view> names = {"actuator_length",
                                                             "actuator_velocity",
                                                             "actuator_moment",
                                                             "moment_rownnz",
                                                             "moment_rowadr",
                                                             "moment_colind",
                                                             "crb",
                                                             "M",
                                                             "qLD",
                                                             "qLDiagInv",
                                                             "qfrc_bias",
                                                             "qfrc_spring",
                                                             "qfrc_damper",
                                                             "qfrc_gravcomp",
                                                             "qfrc_fluid",
                                                             "qfrc_passive"};
  return names.contains(field);
}

bool takes_all(const mjModel& m, int sensor) {
  switch (m.sensor_type[sensor]) {
    case mjSENS_ACTUATORPOS:
    case mjSENS_ACTUATORVEL:
    case mjSENS_JOINTLIMITPOS:
    case mjSENS_JOINTLIMITVEL:
    case mjSENS_TENDONLIMITPOS:
    case mjSENS_TENDONLIMITVEL:
    case mjSENS_CONTACT:
    case mjSENS_E_POTENTIAL:
    case mjSENS_E_KINETIC: return m.sensor_needstage[sensor] != mjSTAGE_ACC;
    default: return false;
  }
}

bool wants_all(const mjModel& m, const Wanted& wanted) {
  if (!wanted.kinematics) return false;
  for (int i = 0; i < m.nsensor; ++i)
    if (is_read(m, wanted, i) && takes_all(m, i)) return true;
  return std::ranges::any_of(wanted.fields, [](const auto& field) { return takes_all(field); });
}

std::vector<std::string> left_to_mujoco(const mjModel& m, const Wanted& wanted) {
  std::vector<std::string> names;
  if (!wanted.kinematics) return names;
  for (const auto& field : wanted.fields)
    if (is_renewed(field) && field != "sensordata" && !is_computed(m, field)) names.push_back(field);
  for (int i = 0; i < m.nsensor; ++i)
    if (is_read(m, wanted, i) && m.sensor_needstage[i] != mjSTAGE_ACC && !is_computed(m, i))
      names.push_back(named(m, mjOBJ_SENSOR, "sensor", i));
  return names;
}

bool is_computed(const mjModel& m, int sensor) {
  const auto stands = [&](int type, int id) { return type != mjOBJ_CAMERA || m.cam_mode[id] == mjCAMLIGHT_FIXED; };
  const int refid = m.sensor_refid[sensor];
  switch (m.sensor_type[sensor]) {
    case mjSENS_ACTUATORPOS:
    case mjSENS_ACTUATORVEL: return !(m.opt.disableflags & mjDSBL_ACTUATION);
    case mjSENS_CONTACT: return are_contacts_known(m, sensor);
    case mjSENS_RANGEFINDER:
    case mjSENS_CAMPROJECTION:
    case mjSENS_INSIDESITE:
    case mjSENS_GEOMDIST:
    case mjSENS_GEOMNORMAL:
    case mjSENS_GEOMFROMTO:
    case mjSENS_E_POTENTIAL:
    case mjSENS_E_KINETIC: return false;
    default:
      if (m.sensor_type[sensor] > mjSENS_CLOCK) return false;
      return stands(m.sensor_objtype[sensor], m.sensor_objid[sensor]) &&
             (refid < 0 || stands(m.sensor_reftype[sensor], refid));
  }
}

void check_model(const mjModel& m) {
  check_options(m);
  check_joints(m);
  check_actuators(m);
}

void check_wanted(const mjModel& m, const Wanted& wanted) {
  static const std::unordered_set<std::string_view> state = {"time", "qpos",           "qvel",      "act",
                                                             "ctrl", "qacc_warmstart", "mocap_pos", "mocap_quat"};
  for (const auto& field : wanted.fields) {
    refuse_if(field == "ncon" && (any(m.geom_gap, m.ngeom) || any(m.pair_gap, m.npair)),
              "ncon is read, and contacts have a gap");
    for (int p = 0; p < m.npair; ++p)  // MuJoCo counts their contacts, which no distance prevents
      refuse_if(
          field == "ncon" && are_one(m, m.geom_bodyid[m.pair_geom1[p]], m.geom_bodyid[m.pair_geom2[p]]),
          "ncon is read, and " + named(m, mjOBJ_PAIR, "pair", p) + " is of bodies that do not move against each other");
    refuse_if((field == "cfrc_ext" || field == "cfrc_int") && wanted.forces && has_spatial_tendons(m),
              field + " is read, and there are spatial tendons");
    if (field == "sensordata") check_sensors(m, wanted);
    if (field == "sensordata" || model_fields().contains(field) || state.contains(field) || is_computed(m, field) ||
        field.ends_with("frc_applied"))
      continue;
    refuse_if(!is_renewed(field), field + " is read");
    refuse_if(!wanted.kinematics, field + " is read of a substep's beginning: with fresh=True it is the new state's");
  }
}

void read_varying(Plan& plan, const Wanted& wanted) {
  const mjModel& m = *plan.model;
  const auto varies = [&](const auto& field) { return std::ranges::count(wanted.varies, field) > 0; };
  for (int f = 0; f < kOwnFields; ++f) plan.own[f] = varies(kOwn[f].name);
  if (std::ranges::any_of(kCauses, varies))  // what mj_setConst computes of them
    for (const Own f : {kBodySubtreeMass, kBodyInvweight0, kDofInvweight0, kTendonLength0, kTendonInvweight0})
      plan.own[f] = true;
  for (const Own f : {kBodyInvweight0, kDofInvweight0, kTendonInvweight0, kGeomFriction, kPairFriction})
    plan.own_grip |= plan.own[f];
  plan.own_places = plan.own[kBodyIpos] || plan.own[kBodyIquat];
  for (const auto& field : wanted.varies)
    plan.own_places |=
        field == "geom_pos" || field == "site_pos" || field.starts_with("cam_") || field.ends_with("_sameframe");
  if (m.opt.disableflags & mjDSBL_SPRING) plan.own[kJntStiffness] = plan.own[kQposSpring] = false;
  if (m.opt.disableflags & mjDSBL_DAMPER) plan.own[kDofDamping] = false;
}

void check_varying(Plan& plan, const Wanted& wanted) {
  const mjModel& m = *plan.model;
  const auto read = [&](mjtNum* mjModel::* field, int id, int n) {
    plan.read.push_back({field, n * id, n * (id + 1)});
  };
  const bool computed = plan.own[kBodyInvweight0] || std::ranges::count(wanted.varies, "eq_data") > 0;
  for (int e = 0; e < m.neq && computed; ++e) read(&mjModel::eq_data, e, mjNEQDATA);
  for (const auto& field : wanted.varies) {
    const bool free = field.starts_with("light_") || field.starts_with("cam_") || field.starts_with("tex_") ||
                      field.starts_with("mat_") || field == "geom_rgba" || field == "hfield_data" ||
                      field.ends_with("_sameframe") || field == "dof_M0" || field == "dof_length" ||
                      field == "actuator_acc0" || field == "actuator_length0" ||
                      field == "eq_data";  // MuJoCo's functions read it of each lane's model, or nobody does
    if (field == "geom_pos") {
      for (const Geom& g : plan.geoms) read(&mjModel::geom_pos, g.id, 3);
    } else if (field == "site_pos") {
      for (int w = 0; w < m.nwrap; ++w)
        if (m.wrap_type[w] == mjWRAP_SITE) read(&mjModel::site_pos, m.wrap_objid[w], 3);
      for (int e = 0; e < m.neq; ++e)
        if (m.eq_objtype[e] == mjOBJ_SITE)
          read(&mjModel::site_pos, m.eq_obj1id[e], 3), read(&mjModel::site_pos, m.eq_obj2id[e], 3);
    } else if (field == "jnt_stiffness") {
      for (int j = 0; j < m.njnt; ++j)  // springs of other joints are not computed in lanes
        if (m.jnt_type[j] == mjJNT_FREE || m.jnt_type[j] == mjJNT_BALL) read(&mjModel::jnt_stiffness, j, 1);
    } else if (field == "wrap_prm") {
      refuse_if(std::ranges::any_of(plan.tendons, [](const Combination& t) { return t.spatial >= 0; }),
                "wrap_prm of spatial tendons differs between environments");
      refuse_if(std::ranges::any_of(plan.blocks,
                                    [](const Block& b) {
                                      return b.kind == Block::kTendonEquality || b.kind == Block::kTendonFriction ||
                                             b.kind == Block::kTendonLimit;
                                    }),
                "wrap_prm of constrained tendons differs between environments");
    } else {
      refuse_if(!free && std::ranges::find(kOwn, field, &OwnField::name) == std::end(kOwn),
                field + " differs between environments");
    }
  }
}

}  // namespace headrace::lanes
