// An Atari game as a reinforcement learning environment: frame skip, max-pooling, resizing,
// frame stack, no-ops and lives.
//
// Aligned with Gymnasium: for the same seed and actions, and without fire resets, its observations, rewards and ends
// are those of AtariPreprocessing + FrameStackObservation over ale_py's AtariEnv, with sticky actions, in all following
// episodes as well. Options are EnvPool's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "console.hpp"
#include "engine/environment.hpp"
#include "engine/random.hpp"
#include "resize.hpp"
#include "screen.hpp"

namespace headrace::atari {

struct Options {
  Game game;
  int stack_num = 4;
  int frame_skip = 4;
  int noop_max = 30;
  int img_height = 84;
  int img_width = 84;
  bool gray_scale = true;
  bool use_inter_area_resize = true;
  bool full_action_space = false;
  bool episodic_life = false;  // a lost life ends the episode, and autoreset plays on
  bool zero_discount_on_life_loss = false;  // adds the field info:discount
  bool reward_clip = false;  // rewards become their sign
  bool use_fire_reset = true;  // press FIRE after each reset, in games that have it
  bool reuse_boots = true;  // see boot_cache.hpp; changes nothing but time
};

struct Shown : Spec {
  explicit Shown(const Options& options);

  Field<std::uint8_t> obs;
  Field<std::int32_t> lives{this, "info:lives"};
  Field<float> reward{this, "info:reward"};
  Field<std::int32_t> terminated{this, "info:terminated"};
  Field<std::uint8_t> ram{this, "info:ram", {static_cast<int>(Console::kRam)}};
  std::optional<Field<float>> discount;
  ActionField<std::int64_t> action{this};
};

class AtariEnv final : public Environment {
 public:
  AtariEnv(const Options& options, std::shared_ptr<BootCache> boots);

  void seed(std::uint64_t seed) override;
  void reset() override;
  bool play_on() override;
  StepResult step(const Action& action) override;
  void observe(const Row& row) const override;
  void save(Writer& out) const override;
  void load(Reader& in) override;
  void render(std::uint8_t* rgb) const override;

 private:
  static constexpr int kMaxPlanes = 3;

  int planes() const { return options_.gray_scale ? 1 : kMaxPlanes; }
  std::size_t frame_bytes() const { return std::size_t(planes()) * options_.img_height * options_.img_width; }

  bool advance(ale::Action action);
  void start_game();
  void begin_episode();
  std::int64_t draw_noops();
  void look();
  void push(bool fill);

  Options options_;
  Shown shown_;
  Console console_;
  std::vector<ale::Action> actions_;
  bool has_fire_ = false;
  std::array<Table, kMaxPlanes> tables_;  // grey; or red, green, blue
  Resizer resize_;
  NumpyGenerator random_{0};
  bool seeded_ = false;

  // The last two frames of a step, pooled as AtariPreprocessing does: if a game ends early, the frame of the step
  // before stays.
  std::size_t pixels_;
  std::vector<std::uint8_t> pooled_;  // planes * pixels
  std::array<Changed, kMaxPlanes> changed_{};  // the changes since the stack's newest frame was made of it
  std::vector<std::uint8_t> stack_;  // a ring of stack_num frames
  int newest_ = 0;  // position in the ring

  int lives_ = 0;
  float raw_reward_ = 0;
  float discount_ = 1;
  bool game_over_ = false;
  bool life_lost_ = false;  // the episode ended but not the game, in which lives are left
};

// Returns the task's rows and the factory of its environments; throws what Console's constructor throws.
Simulator simulator(const Options& options);

}  // namespace headrace::atari
