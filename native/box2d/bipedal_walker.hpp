// BipedalWalker: walk on two legs over rough ground, or over stumps, pits and stairs. The rules are those of
// Gymnasium's bipedal_walker.py (v3), and each number is computed in the same order. Gymnasium keeps one world for all
// episodes, whose leftovers decide the order of later contacts; here each episode has a new world, as Gymnasium's first
// episode has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/environment.hpp"
#include "engine/random.hpp"
#include "scene.hpp"

namespace headrace::box2d {

class BipedalWalker {
 public:
  struct Options {
    bool hardcore = false;
  };

  static constexpr int kObserved = 24, kActions = 4, kWidth = 600, kHeight = 400;
  using Number = float;  // the type of observations
  static std::vector<int> shape(const Options&) { return {kObserved}; }
  using Move = std::array<float, kActions>;  // torques of hip and knee of each leg

  static bool is_discrete(const Options&) { return false; }
  static Move move_of(int) { return {}; }

  explicit BipedalWalker(const Options& options);

  void begin(NumpyGenerator& random);
  StepResult advance(const Move& torques, NumpyGenerator& random);
  void observe(std::span<float> out) const;
  void render(std::uint8_t* rgb) const;

 private:
  static constexpr int kLidars = 10;

  void make_ground(NumpyGenerator& random);
  void make_clouds(NumpyGenerator& random);
  void make_walker(NumpyGenerator& random);
  void look();

  Options options_;
  Scene scene_;
  std::vector<Point> ground_;
  std::vector<b2Body*> obstacles_;
  std::vector<std::array<Point, 5>> clouds_;
  b2Body* hull_ = nullptr;
  std::array<b2Body*, 4> legs_{};  // upper and lower part of each
  std::array<b2RevoluteJoint*, 4> joints_{};  // hip and knee of each
  std::array<bool, 2> on_ground_{};  // the lower parts
  bool fell_ = false;
  std::array<float, kLidars> lidar_{};  // shares of their range
  std::array<double, kObserved - kLidars> state_{};
  std::optional<double> shaped_;  // the value of the last state
};

}  // namespace headrace::box2d
