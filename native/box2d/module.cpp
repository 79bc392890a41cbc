// The extension module headrace_box2d._box2d.
#include "bipedal_walker.hpp"
#include "car_racing.hpp"
#include "engine/module.hpp"
#include "episode.hpp"
#include "lunar_lander.hpp"

NB_MODULE(_box2d, m) {
  using namespace headrace;
  using namespace headrace::box2d;
  using namespace nb::literals;
  m.doc() = "Tasks on Box2D.";
  bind_engine(m);
  m.def(
      "lunar_lander",
      [](bool continuous, double gravity, bool enable_wind, double wind_power, double turbulence_power) {
        return simulator<LunarLander>({continuous, gravity, enable_wind, wind_power, turbulence_power});
      },
      nb::kw_only(), "continuous"_a, "gravity"_a, "enable_wind"_a, "wind_power"_a, "turbulence_power"_a,
      "The simulator of LunarLander; options are those of headrace.envs.box2d, which checks them.");
  m.def(
      "bipedal_walker", [](bool hardcore) { return simulator<BipedalWalker>({hardcore}); }, nb::kw_only(), "hardcore"_a,
      "The simulator of BipedalWalker.");
  m.def(
      "car_racing",
      [](bool continuous, double lap_complete_percent, bool domain_randomize, bool channels_first, int frame_skip) {
        return simulator<CarRacing>({continuous, lap_complete_percent, domain_randomize, channels_first}, frame_skip);
      },
      nb::kw_only(), "continuous"_a, "lap_complete_percent"_a, "domain_randomize"_a, "channels_first"_a, "frame_skip"_a,
      "The simulator of CarRacing.");
}
