// The numbers of mjModel that differ between the lanes of a step, where models do.
//
// Each of them is a constant of the plan; or, if its field differs, an array of registers that a step reads of the
// lanes' own models. So nothing is loaded, and no memory taken, for a model that all environments share.
#pragma once

#include <mujoco/mujoco.h>

#include <bitset>
#include <string_view>

namespace headrace::lanes {

enum Own {
  kBodyPos,
  kBodyQuat,
  kBodyMass,
  kBodySubtreeMass,
  kBodyInertia,
  kBodyIpos,
  kBodyIquat,
  kBodyInvweight0,
  kJntStiffness,
  kJntRange,
  kQpos0,
  kQposSpring,
  kDofDamping,
  kDofArmature,
  kDofFrictionloss,
  kDofInvweight0,
  kGeomFriction,
  kPairFriction,
  kTendonLength0,
  kTendonInvweight0,
  kWrapPrm,
  kActuatorGainprm,
  kActuatorBiasprm,
  kActuatorForcerange,
  kActuatorCtrlrange,
  kOwnFields
};

struct OwnField {
  std::string_view name;
  mjtNum* mjModel::* field;
  mjtSize mjModel::* rows;
  int columns, used;  // numbers of a row, and those that a step reads, its first ones
};

inline constexpr OwnField kOwn[kOwnFields] = {
    {"body_pos", &mjModel::body_pos, &mjModel::nbody, 3, 3},
    {"body_quat", &mjModel::body_quat, &mjModel::nbody, 4, 4},
    {"body_mass", &mjModel::body_mass, &mjModel::nbody, 1, 1},
    {"body_subtreemass", &mjModel::body_subtreemass, &mjModel::nbody, 1, 1},
    {"body_inertia", &mjModel::body_inertia, &mjModel::nbody, 3, 3},
    {"body_ipos", &mjModel::body_ipos, &mjModel::nbody, 3, 3},
    {"body_iquat", &mjModel::body_iquat, &mjModel::nbody, 4, 4},
    {"body_invweight0", &mjModel::body_invweight0, &mjModel::nbody, 2, 2},
    {"jnt_stiffness", &mjModel::jnt_stiffness, &mjModel::njnt, 1, 1},
    {"jnt_range", &mjModel::jnt_range, &mjModel::njnt, 2, 2},
    {"qpos0", &mjModel::qpos0, &mjModel::nq, 1, 1},
    {"qpos_spring", &mjModel::qpos_spring, &mjModel::nq, 1, 1},
    {"dof_damping", &mjModel::dof_damping, &mjModel::nv, 1, 1},
    {"dof_armature", &mjModel::dof_armature, &mjModel::nv, 1, 1},
    {"dof_frictionloss", &mjModel::dof_frictionloss, &mjModel::nv, 1, 1},
    {"dof_invweight0", &mjModel::dof_invweight0, &mjModel::nv, 1, 1},
    {"geom_friction", &mjModel::geom_friction, &mjModel::ngeom, 3, 3},
    {"pair_friction", &mjModel::pair_friction, &mjModel::npair, 5, 5},
    {"tendon_length0", &mjModel::tendon_length0, &mjModel::ntendon, 1, 1},
    {"tendon_invweight0", &mjModel::tendon_invweight0, &mjModel::ntendon, 1, 1},
    {"wrap_prm", &mjModel::wrap_prm, &mjModel::nwrap, 1, 1},
    {"actuator_gainprm", &mjModel::actuator_gainprm, &mjModel::nactuator, mjNGAIN, 3},
    {"actuator_biasprm", &mjModel::actuator_biasprm, &mjModel::nactuator, mjNBIAS, 3},
    {"actuator_forcerange", &mjModel::actuator_forcerange, &mjModel::nactuator, 2, 2},
    {"actuator_ctrlrange", &mjModel::actuator_ctrlrange, &mjModel::nu, 2, 2},
};

// Fields of which mj_setConst computes others.
inline constexpr std::string_view kCauses[] = {"body_mass",  "body_inertia", "body_ipos",
                                               "body_iquat", "dof_armature", "qpos0"};

using OwnFields = std::bitset<kOwnFields>;

}  // namespace headrace::lanes
