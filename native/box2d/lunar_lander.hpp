// LunarLander: land a rocket between two flags. The rules are those of Gymnasium's lunar_lander.py (v3), and each
// number is computed in the same order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/environment.hpp"
#include "engine/random.hpp"
#include "scene.hpp"

namespace headrace::box2d {

class LunarLander {
 public:
  struct Options {
    bool continuous = false;
    double gravity = -10;
    bool enable_wind = false;
    double wind_power = 15, turbulence_power = 1.5;
  };

  static constexpr int kObserved = 8, kActions = 2, kWidth = 600, kHeight = 400;
  using Number = float;  // the type of observations
  static std::vector<int> shape(const Options&) { return {kObserved}; }
  using Move = std::array<float, kActions>;  // throttles of the main engine and of the side engines

  static bool is_discrete(const Options& options) { return !options.continuous; }
  static Move move_of(int action);

  explicit LunarLander(const Options& options);

  void begin(NumpyGenerator& random);
  StepResult advance(const Move& throttles, NumpyGenerator& random);
  void observe(std::span<float> out) const;
  void render(std::uint8_t* rgb) const;

 private:
  static constexpr int kChunks = 11;

  void make_moon(NumpyGenerator& random);
  void make_lander(NumpyGenerator& random);
  void blow();
  void fire_main(const std::array<double, 2>& dispersion);
  void fire_side(const std::array<double, 2>& dispersion, double direction);
  double shaping() const;

  Options options_;
  Scene scene_;
  std::array<Point, kChunks> surface_{};
  b2Body* lander_ = nullptr;
  std::array<b2Body*, 2> legs_{};
  std::array<bool, 2> on_ground_{};
  bool crashed_ = false;
  std::int64_t wind_ = 0, torque_ = 0;  // places in the patterns of the wind
  double main_power_ = 0, side_power_ = 0, direction_ = 0;  // the engines' powers in the last step
  std::array<double, kObserved> state_{};
  std::optional<double> shaped_;  // the value of the last state
};

}  // namespace headrace::box2d
