#include "after.hpp"

namespace headrace::mujoco {

void update_kinematics(const mjModel& m, mjData& d) {
  d.flg_subtreevel = 0;  // else the sensors take the last state's for the present one's
  mj_fwdKinematics(&m, &d);
  mj_sensorPos(&m, &d);
  mj_comVel(&m, &d);
  mj_sensorVel(&m, &d);
}

void compute_after(const mjModel& model, mjData& data, const After& after) {
  if (after.kinematics) update_kinematics(model, data);
  if (after.forces) mj_rnePostConstraint(&model, &data);
}

}  // namespace headrace::mujoco
