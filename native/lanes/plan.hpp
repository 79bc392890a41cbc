// The work of a step of one model, read from the model once: the tree, the places of its numbers, the pairs of geoms
// that can touch, the constraints that there can be. Nothing in it changes with the state.
#pragma once

#include <mujoco/mujoco.h>

#include <cmath>
#include <memory>
#include <vector>

#include "lanes.hpp"
#include "pattern.hpp"
#include "varying.hpp"

namespace headrace::lanes {

struct Joint {
  int type;             // mjtJoint
  int qpos, dof;        // its first position and degree of freedom
  double pos[3], axis[3];
  double ref;           // qpos0, of a hinge or slide
  double stiffness, spring_ref;
};

struct Body {
  int id, parent, root;
  int first_joint, joints;
  int first_dof, dofs;
  int mocap;            // its number among mocap bodies, or -1
  bool turned;          // quat is not the identity
  bool tilted;          // the inertia's axes are not the body's
  double pos[3], quat[4];
  double ipos[3], imat[9], inertia[3], mass, subtree_mass;
  double box[3];        // a box of its mass and inertia, for the forces of a fluid
};

struct Geom {
  int id, body;
  int type;             // mjtGeom
  bool is_static;       // its place never changes
  double size[3], pos[3], mat[9];
  double axis[3];       // in its body: a plane's normal, or the axis of a capsule around another geom, which has
  double radius, half;  // this radius and half length; radius 0: none is known
};

// length = Σ coefficient · position, of joints: a joint's transmission, or a fixed tendon; or a spatial tendon's
struct Combination {
  struct Term {
    int qpos, dof;
    double coefficient;
    int wrap = -1;     // a fixed tendon's number among wrap_prm; the coefficient is then `gear` times that element
    double gear = 1;
    int arm = -1;  // the place in ten_J of a spatial tendon's moment arm; the coefficient is then `gear` times that
  };
  std::vector<Term> terms;
  int spatial = -1;  // this is `gear` times the length of that spatial tendon
  double gear = 1;
  double stiffness = 0, damping = 0, spring_low = 0, spring_high = 0;  // a tendon's parameters
};

// A straight piece of a spatial tendon, between two sites.
struct Segment {
  struct Arm {
    int dof, place, end;
  };  // a degree of freedom that moves one end, and the place of its moment arm in ten_J
  int tendon;
  double divisor;  // the one of the pulley before it
  int body[2], root[2];
  double pos[2][3];  // its sites, in their bodies
  std::vector<Arm> arms;
};

struct Actuator {
  int id;
  Combination transmission;
  double gain[3], bias[3];  // constant, length, velocity
  bool affine[2];  // the gain, the bias: the last two numbers count
  bool by_state, damps;  // length or velocity changes the force; velocity does
  int ctrl, act;  // addresses; act -1: without a state
  int joint_limit;  // the limit in Plan::force_limits of the joint that it drives, or -1
  int dynamics;  // mjtDyn
  double tau;  // time constant of a filter
  double decay;  // 1 - exp(-timestep / tau)
  bool ctrl_limited, act_limited, act_early, force_limited;
  double ctrl_range[2], act_range[2], force_range[2];
};

// The stiffness and damping of a constraint by its violation: MuJoCo's solref and solimp.
struct Impedance {
  double dmin, dmax, width, midpoint;
  double power;
  bool flat;  // the same everywhere
  double low, high;  // y(x) has these factors on both sides of the midpoint
  double stiffness, damping;  // K and B; with an elliptic cone's own damping of its friction:
  double friction_damping;
};

// The numbers of a constraint's friction and of its rows' proportions.
template <class V>
struct Grip {
  V friction[5];  // a contact's coefficients
  V mu;           // the regularized cone's coefficient
  V ratio[6];     // D of row j divided by D of row 0, of an elliptic cone or a weld
  V loss;         // the largest force of friction
};

// A constraint or contact: `dim` rows over `n` degrees of freedom.
struct Block {
  enum Kind {
    kJointEquality,
    kTendonEquality,
    kConnect,
    kWeld,
    kFrictionLoss,
    kTendonFriction,
    kLimit,
    kBallLimit,
    kTendonLimit,
    kPoint,
    kPyramid,
    kCone
  };

  Kind kind;
  int dim, n, dofs;  // dofs: the place of the first in Plan::dofs
  int jac, row;  // the places where its Jacobian [dim, n] and rows [dim] begin
  bool couples;  // it joins degrees of freedom that the tree does not
  bool moves = false;  // its Jacobian consists of moment arms of spatial tendons
  Impedance impedance;
  double margin;
  double diagonal;  // approximate inverse inertia of the first row (mj_diagApprox), from which R follows
  Grip<double> grip;
  int source = 0, side = 0;  // the joint, tendon, equality or explicit pair (-1: none), and the sign of the limit
  int body[2] = {}, root[2] = {};  // the bodies of a contact's geoms, or the joined ones
  int surface[2] = {};  // geoms: a contact has the larger of their frictions
  double anchor[2][3], turn[2][4];  // points and orientations in the joined bodies
};

// Computes what follows from a contact's coefficients, and returns the inverse inertia of its first row; `moved` is that
// of its bodies together.
template <class V>
V finish_grip(Block::Kind kind, double impratio, V moved, Grip<V>& grip) {
  const V f0 = grip.friction[0];
  grip.mu = f0 * V(std::sqrt(1 / impratio));
  if (kind == Block::kPyramid)  // all rows have R = 2 mu² R of the first, whose inertia includes friction
    return V(2) * grip.mu * grip.mu * (moved + f0 * f0 * moved);
  if (kind == Block::kPoint) return moved;
  grip.ratio[0] = V(1);
  for (int j = 1; j < 6; ++j) grip.ratio[j] = V(impratio) * grip.friction[j - 1] * grip.friction[j - 1] / (f0 * f0);
  return moved;
}

struct Pair {
  enum Kind {
    kPlaneSphere,
    kPlaneCapsule,
    kPlaneBox,
    kPlaneCylinder,
    kPlaneEllipsoid,
    kSphereSphere,
    kSphereCapsule,
    kCapsuleCapsule,
    kFieldSphere,
    kByMujoco
  };

  static constexpr int kMostSlots = 8;  // a height field could make more contacts: such a step is libmujoco's
  static constexpr double kSlack = 1e-6;  // bounding spheres are larger by this, so that rounding loses no pair

  Kind kind;
  int geom[2];  // places in Plan::geoms
  int body[2], root[2];
  double margin, bound;  // contacts nearer than margin count; bound: bounding spheres' radii, margin and slack
  double reach;  // MuJoCo looks for contacts as far as this
  bool plane;  // geom[0] is a plane
  int first_block, slots;  // one block for each contact that the pair can make
  int names[2];  // numbers in the model
};

// One column of a Jacobian. For a contact: a degree of freedom that moves geom 1 (sign -1) or geom 2 (sign 1).
// Otherwise: the coefficient of a length, and of the second length of an equality (1 for a degree of freedom that moves
// a joined body); for a spatial tendon, both are factors of moment arms.
struct Column {
  int dof;
  double sign;
  double second = 0;
  int arm = -1, second_arm = -1;  // places in ten_J
};

// A field that is written to mjData after a step, besides the state.
enum class Shown {
  qacc,
  xpos,
  xquat,
  xmat,
  xipos,
  ximat,
  site_xpos,
  site_xmat,
  geom_xpos,
  geom_xmat,
  ten_length,
  ten_velocity,
  subtree_com,
  cinert,
  cvel,
  cdof,
  qfrc_actuator,
  actuator_force,
  qfrc_constraint,
  cfrc_ext,
  ncon,
  act_dot,
  actuator_length,
  actuator_velocity,
  qfrc_bias,
  qfrc_passive,
  cacc,
  cfrc_int
};

// A sensor of contacts: `slots` records of `size` numbers, of contacts that it chooses among those that match.
struct ContactSensor {
  enum Choice { kFirst, kNearest, kStrongest, kSum };

  int adr, size, slots;
  Choice choice;
  bool is_new;               // it is of the new state
  int place[mjNCONDATA];     // of each kind of data in a record, or -1
  std::vector<signed char> sign;  // by block: 0 if the contact does not match, -1 if its normal is turned
};

struct Plan {
  std::shared_ptr<const mjModel> model;

  int integrator;  // mjtIntegrator
  double timestep, gravity[3];
  double density, viscosity, wind[3];  // the fluid around the bodies
  bool damped;  // velocities are damped implicitly
  bool clamps_ctrl;
  double impratio;  // resistance of friction to that of the normal, of cones
  double scale;  // scales gradients, as MuJoCo measures convergence

  std::vector<Joint> joints;
  std::vector<Body> bodies;  // the bodies that can move, parents first
  std::vector<Body> fixed;  // the others: the world, and the bodies that are welded to it
  bool fixed_centres = false, fixed_inertias = false;  // their subtrees' centres of mass, their inertias are needed
  OwnFields own;  // the fields that differ between simulations, among those that a step reads
  bool own_grip = false;  // constraints' inertia or friction is among them
  std::vector<int> trees;  // numbers of the bodies that are roots, among those that can move
  std::vector<Body> spinning;  // bodies with damped spin that float and carry nothing that moves against them
  std::vector<double> armature, damping;
  Pattern mass;  // the inertia matrix's pattern

  std::vector<Geom> geoms;  // the geoms that can touch
  std::vector<Pair> pairs;
  std::vector<Block> blocks;
  std::vector<Column> columns;  // the columns of all blocks: dofs, and signs for contacts
  int jacobian = 0, rows = 0;  // numbers, in all blocks together

  std::vector<Combination> tendons;
  std::vector<Segment> segments;  // the pieces of spatial tendons
  bool wraps = false;  // some tendons wrap around geoms: MuJoCo's function finds them
  std::vector<Actuator> actuators;
  struct Limit {
    int dof;
    double range[2];
  };
  std::vector<Limit> force_limits;  // the limits of qfrc_actuator

  std::vector<double> fixed_pose;  // xpos[3], xquat[4], xmat[9] of each fixed body
  struct Read {
    mjtNum* mjModel::* field;
    int begin, end;
  };
  std::vector<Read> read;  // the elements that a step reads of the model's fields that may vary
  bool applied = false;  // somebody applies forces
  std::vector<Shown> shown, shown_new;  // fields of the last step, and of the new state
  bool kinematics = false;  // positions and velocities of the new state are shown
  std::vector<int> sensors, new_sensors;  // the sensors that are read: of the last step's beginning, of the new state
  std::vector<ContactSensor> contact_sensors;
  std::vector<int> contact_sensor;  // by sensor: its place among them
  std::vector<int> contact_order;  // by block: MuJoCo's order of contacts
  bool shows_forces = false, senses_forces = false;  // some of `shown`, of `sensors` need the forces of constraints
  bool shows_bodies = false, senses_bodies = false;  // and what mj_rnePostConstraint computes
  bool inner_forces = false;  // accelerations of bodies and forces between them are shown
  bool lengths = false;  // actuators' lengths and velocities are read
  bool own_places = false;  // sites, geoms, cameras or inertias stand elsewhere in each simulation
  bool new_limits = false, new_contacts = false, new_bias = false, new_passive = false;  // are read of the new state
};

// Throws Unsupported.
std::shared_ptr<const Plan> read_plan(std::shared_ptr<const mjModel> model, const Wanted& wanted);

}  // namespace headrace::lanes
