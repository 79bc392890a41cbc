// CarRacing: drive a lap of a road that is new in each episode, seen from above. The rules are those of Gymnasium's
// car_racing.py (v3), and each number is computed in the same order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "canvas.hpp"
#include "car.hpp"
#include "engine/environment.hpp"
#include "engine/random.hpp"
#include "raster.hpp"
#include "scene.hpp"
#include "track.hpp"

namespace headrace::box2d {

class CarRacing {
 public:
  struct Options {
    bool continuous = true;
    double lap_complete_percent = 0.95;
    bool domain_randomize = false;
    bool channels_first = false;
  };

  static constexpr int kSide = 96, kActions = 3, kWidth = 600, kHeight = 400;
  using Number = std::uint8_t;
  static constexpr int kObserved = kSide * kSide * 3;
  static std::vector<int> shape(const Options& options) {
    return options.channels_first ? std::vector{3, kSide, kSide} : std::vector{kSide, kSide, 3};
  }
  using Move = std::array<double, kActions>;       // to the right, gas, brake

  static bool is_discrete(const Options& options) { return !options.continuous; }
  static Move move_of(int action);

  explicit CarRacing(const Options& options);

  void begin(NumpyGenerator& random);
  StepResult advance(const Move& move, NumpyGenerator& random);
  void observe(std::span<std::uint8_t> out) const;
  void render(std::uint8_t* rgb) const { draw(rgb, kWidth, kHeight); }

 private:
  using Paint = std::array<double, 3>;

  struct Tile {
    const b2Body* body = nullptr;
    bool touched = false, visited = false;
  };

  void choose_colours(NumpyGenerator& random);
  void make_road(const std::vector<Waypoint>& track);
  void hear(const b2Body& body, const b2Body& other, bool touches);
  void drive();
  void draw(std::uint8_t* rgb, int width, int height) const;
  void draw_field(Raster& raster, const class Camera& camera) const;
  void draw_car(Raster& raster, const class Camera& camera) const;
  void draw_panel(Raster& raster) const;

  Options options_;
  Scene scene_;
  Car car_;
  std::vector<Stretch> road_;
  std::vector<Tile> tiles_;                        // one for each stretch of road
  Paint road_colour_{102, 102, 102}, field_colour_{102, 204, 102}, grass_colour_{102, 230, 102};
  int visited_ = 0;
  bool lap_ = false;                               // the first tile has been visited after enough others
  double time_ = 0, reward_ = 0, told_ = 0;        // told_ is the reward at the end of the last step
  double shown_ = 0;                               // the reward in the picture
};

}  // namespace headrace::box2d
