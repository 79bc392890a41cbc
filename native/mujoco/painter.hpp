// Pictures of simulations, drawn by MuJoCo's own renderer without a window.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gl.hpp"
#include "stock.hpp"

namespace headrace::mujoco {

struct Picture {
  int width = 0, height = 0;
  mjvCamera camera{};
  bool effects = true;                        // shadows, reflections and smooth edges
  int most_geoms = 0;                         // the most that a scene draws
  std::vector<std::pair<int, bool>> flags{};  // mjtVisFlag → whether it is on, if not as by default
  bool textures_vary = false;  // between environments
};

// A rod over the scene, or an arrow's head, in the order of its numbers in a row of `Memory::arrows`.
struct Arrow {
  float from[3], to[3];  // m
  float width;           // radius in m, of a head where it begins; 0 for what is not drawn
  float headed;          // 1 for a head, 0 for a rod
  float rgba[4];
};

// The order of a picture's bytes, its top row first: [height, width, 3] or [3, height, width].
enum class Layout { pixels, planes };

// Everything that drawing needs; it serves one thread at a time.
class Painter {
 public:
  Painter(const mjModel& model, const Picture& picture);
  ~Painter();
  Painter(const Painter&) = delete;
  Painter& operator=(const Painter&) = delete;

  // Draws the camera's view, and arrows over it; positions in `data` must be those of the state.
  void draw(const mjModel& model, mjData& data, std::span<const Arrow> arrows, Layout layout, std::uint8_t* rgb);

 private:
  void make(const mjModel& model);
  void upload(const mjModel& model);
  void add(const Arrow& arrow);
  void free();
  void copy_out(Layout layout, std::uint8_t* rgb) const;

  Picture picture_;
  std::unique_ptr<GlContext> gl_;
  mjvOption option_;
  mjvScene scene_;
  mjrContext context_;
  std::vector<float> terrain_;        // the height fields that OpenGL has
  std::vector<std::uint8_t> pixels_;  // bottom row first, as OpenGL has them
  int owner_;                         // process
};

// The painters of a pool.
class Studio {
 public:
  Studio(std::shared_ptr<const mjModel> model, Picture picture)
      : model_(std::move(model)), picture_(std::move(picture)) {}

  const Picture& picture() const { return picture_; }

  Stock<Painter>::Loan borrow() {
    return painters_.borrow([this] { return std::make_unique<Painter>(*model_, picture_); });
  }

  // Makes sure that pictures can be drawn; throws NoPictures.
  void open() { borrow(); }
  void close() { painters_.clear(); }

 private:
  std::shared_ptr<const mjModel> model_;
  Picture picture_;
  Stock<Painter> painters_;
};

}  // namespace headrace::mujoco
