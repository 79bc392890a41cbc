#include "in_lanes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace headrace::mujoco {
namespace {

// a program may have MuJoCo call functions of its own within a step
void refuse_callbacks() {
  const std::pair<const char*, bool> callbacks[] = {
      {"mjcb_passive", mjcb_passive}, {"mjcb_control", mjcb_control},   {"mjcb_contactfilter", mjcb_contactfilter},
      {"mjcb_sensor", mjcb_sensor},   {"mjcb_act_dyn", mjcb_act_dyn},   {"mjcb_act_gain", mjcb_act_gain},
      {"mjcb_act_bias", mjcb_act_bias}};
  for (const auto& [name, set] : callbacks)
    if (set) throw lanes::Unsupported(std::string("the callback ") + name);
}

}  // namespace

MakeStepper stepping_in_lanes(const std::vector<std::string>& reads, const After& after) {
  lanes::Wanted wanted{{}, after.kinematics, after.forces};
  std::ranges::copy_if(reads, std::back_inserter(wanted.fields), changes);
  return [wanted = std::move(wanted)](std::shared_ptr<const mjModel> model) {
    refuse_callbacks();
    return lanes::make_stepper(std::move(model), wanted);
  };
}

std::string why_not_in_lanes(const mjModel& model, const std::vector<std::string>& reads, const After& after) {
  try {
    stepping_in_lanes(reads, after)(borrowed(model));
  } catch (const lanes::Unsupported& why) {
    return why.what();
  }
  return {};
}

}  // namespace headrace::mujoco
