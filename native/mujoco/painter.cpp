#include "painter.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <mutex>

#include "physics.hpp"

namespace headrace::mujoco {
namespace {

constexpr int kHeadPieces = 6;
constexpr int kSmall = 128, kSlices = 12, kStacks = 6;
constexpr int kFontScale = mjFONTSCALE_50;  // there is no text to draw

// The side of a shadow map that is fine enough for a picture. Models ask for one that suits a screen; for small
// pictures that costs ten times as much as everything else.
int finest_shadow(const Picture& picture) {
  const auto side = static_cast<unsigned>(std::max(picture.width, picture.height));
  return static_cast<int>(std::bit_ceil(8 * side));
}

// MuJoCo keeps OpenGL's functions in variables of the process, and sets them with each new context.
std::mutex making;

}  // namespace

Painter::Painter(const mjModel& model, const Picture& picture)
    : picture_(picture),
      gl_(make_context()),
      pixels_(3 * static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height)),
      owner_(getpid()) {
  mjv_defaultOption(&option_);
  for (const auto& [flag, on] : picture.flags) option_.flags[flag] = on;
  mjv_defaultScene(&scene_);
  mjr_defaultContext(&context_);
  try {
    make(model);
  } catch (...) {
    free();
    throw;
  }
}

void Painter::make(const mjModel& model) {
  Current current(*gl_);
  if (!current) throw NoPictures("the OpenGL context cannot be used");
  std::lock_guard lock(making);
  try {
    guarded([&] {
      mjModel sized = model;  // a shallow copy: the same arrays, and a frame of our size
      sized.vis.global.offwidth = picture_.width;
      sized.vis.global.offheight = picture_.height;
      sized.vis.quality.shadowsize = std::min(sized.vis.quality.shadowsize, finest_shadow(picture_));
      mjv_makeScene(&model, &scene_, picture_.most_geoms);
      if (!picture_.effects) {  // without a GPU they take most of the time
        sized.vis.quality.shadowsize = sized.vis.quality.offsamples = 0;
        scene_.flags[mjRND_SHADOW] = scene_.flags[mjRND_REFLECTION] = 0;
        if (std::max(picture_.width, picture_.height) <= kSmall) {  // faces of round shapes that are less than a pixel
          sized.vis.quality.numslices = std::min(sized.vis.quality.numslices, kSlices);
          sized.vis.quality.numstacks = std::min(sized.vis.quality.numstacks, kStacks);
        }
      }
      mjr_makeContext(&sized, &context_, kFontScale);
      mjr_setBuffer(mjFB_OFFSCREEN, &context_);
    });
  } catch (const std::runtime_error& error) {
    throw NoPictures(error.what());
  }
  if (context_.currentBuffer != mjFB_OFFSCREEN) throw NoPictures("OpenGL has no frames of this size off the screen");
}

Painter::~Painter() { free(); }

void Painter::free() {
  if (owner_ != getpid()) {  // the driver's threads did not survive the fork
    static_cast<void>(gl_.release());
    return;
  }
  {
    Current current(*gl_);
    if (current) mjr_freeContext(&context_);
  }
  mjv_freeScene(&scene_);
}

void Painter::draw(const mjModel& model, mjData& data, std::span<const Arrow> arrows, Layout layout,
                   std::uint8_t* rgb) {
  Current current(*gl_);
  if (!current) throw NoPictures("the OpenGL context cannot be used any more");
  guarded([&] {
    mjvCamera camera = picture_.camera;  // a copy, so that earlier pictures do not matter
    upload(model);
    const mjrRect frame = {0, 0, picture_.width, picture_.height};
    mjv_updateScene(&model, &data, &option_, nullptr, &camera, mjCAT_ALL, &scene_);
    for (const Arrow& arrow : arrows) add(arrow);
    mjr_render(frame, &scene_, &context_);
    mjr_readPixels(pixels_.data(), nullptr, frame, &context_);
  });
  copy_out(layout, rgb);
}

// A head is made of ever thinner rods: MuJoCo's own arrows have heads as flat as plates.
void Painter::add(const Arrow& arrow) {
  const int pieces = arrow.headed > 0 ? kHeadPieces : 1;
  for (int i = 0; arrow.width > 0 && i < pieces && scene_.ngeom < scene_.maxgeom; ++i) {
    mjtNum ends[2][3];
    for (int k = 0; k < 3; ++k)
      for (int end = 0; end < 2; ++end)
        ends[end][k] = arrow.from[k] + (arrow.to[k] - arrow.from[k]) * static_cast<mjtNum>(i + end) / pieces;
    mjvGeom& geom = scene_.geoms[scene_.ngeom++];
    mjv_initGeom(&geom, mjGEOM_CAPSULE, nullptr, nullptr, nullptr, arrow.rgba);
    mjv_connector(&geom, mjGEOM_CAPSULE, arrow.width * (pieces - i) / pieces, ends[0], ends[1]);
    geom.category = mjCAT_DECOR;
  }
}

// OpenGL has copies of terrains and textures, and environments may have different ones.
void Painter::upload(const mjModel& model) {
  const std::span terrain(model.hfield_data, static_cast<std::size_t>(model.nhfielddata));
  if (!std::ranges::equal(terrain, terrain_)) {
    terrain_.assign(terrain.begin(), terrain.end());
    for (int i = 0; i < model.nhfield; ++i) mjr_uploadHField(&model, &context_, i);
  }
  for (int i = 0; picture_.textures_vary && i < model.ntex; ++i) mjr_uploadTexture(&model, &context_, i);
}

void Painter::copy_out(Layout layout, std::uint8_t* rgb) const {
  const auto width = static_cast<std::size_t>(picture_.width), height = static_cast<std::size_t>(picture_.height);
  const bool planes = layout == Layout::planes;
  const std::size_t next_pixel = planes ? 1 : 3, next_colour = planes ? width * height : 1;
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* from = &pixels_[(height - 1 - y) * width * 3];
    std::uint8_t* to = rgb + y * width * next_pixel;
    for (std::size_t x = 0; x < width; ++x, from += 3, to += next_pixel)
      for (std::size_t c = 0; c < 3; ++c) to[c * next_colour] = from[c];
  }
}

}  // namespace headrace::mujoco
