#include "after.hpp"

namespace headrace::mujoco {
namespace {

void update_tendon_velocities(const mjModel& m, mjData& d) {
  for (int t = 0; t < m.ntendon; ++t) {
    d.ten_velocity[t] = 0;
    for (int i = m.ten_J_rowadr[t]; i < m.ten_J_rowadr[t] + m.ten_J_rownnz[t]; ++i)
      d.ten_velocity[t] += d.ten_J[i] * d.qvel[m.ten_J_colind[i]];
  }
}

}  // namespace

void update_kinematics(const mjModel& m, mjData& d, bool all) {
  d.flg_energypos = d.flg_energyvel = d.flg_subtreevel = 0;  // else sensors take the last state's for the present one's
  if (all) mj_fwdPosition(&m, &d);
  else mj_fwdKinematics(&m, &d);
  mj_sensorPos(&m, &d);
  if (all) mj_fwdVelocity(&m, &d);
  else mj_comVel(&m, &d), update_tendon_velocities(m, d);
  mj_sensorVel(&m, &d);
}

void compute_after(const mjModel& model, mjData& data, const After& after) {
  if (after.forces) mj_rnePostConstraint(&model, &data);  // the contacts to which they belong do not exist later
  if (after.kinematics) update_kinematics(model, data, after.all);
}

}  // namespace headrace::mujoco
