#include "atari_env.hpp"

#include <algorithm>
#include <cstring>

#include "boot_cache.hpp"

namespace headrace::atari {
namespace {

std::array<Table, 3> tables_for(const Console& console, bool grey) {
  std::array<Table, 3> tables{};
  for (int i = 0; i < 256; ++i) {
    // The emulator keeps each colour's grey value right behind the colour; the last one is followed by a zero.
    if (grey) {
      tables[0][i] = static_cast<std::uint8_t>(i < 255 ? console.colour(i + 1) : 0);
    } else {
      for (int plane = 0; plane < 3; ++plane)
        tables[plane][i] = static_cast<std::uint8_t>(console.colour(i) >> (16 - 8 * plane));
    }
  }
  return tables;
}

float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

}  // namespace

Shown::Shown(const Options& options)
    : obs(this, "obs", {options.stack_num * (options.gray_scale ? 1 : 3), options.img_height, options.img_width}) {
  if (options.zero_discount_on_life_loss) discount.emplace(this, "info:discount");
}

AtariEnv::AtariEnv(const Options& options, std::shared_ptr<BootCache> boots)
    : options_(options),
      shown_(options),
      console_(options.game, options.reuse_boots ? std::move(boots) : nullptr),
      actions_(console_.actions(options.full_action_space)),
      has_fire_(std::ranges::find(actions_, ale::PLAYER_A_FIRE) != actions_.end()),
      tables_(tables_for(console_, options.gray_scale)),
      resize_(console_.height(), console_.width(), options.img_height, options.img_width,
              options.use_inter_area_resize),
      pixels_(std::size_t(console_.height()) * console_.width()),
      pooled_(planes() * pixels_),
      stack_(shown_.obs.size()) {}

// As ale_py's AtariEnv.seed_game: two words, one for NumPy's generator, one for the emulator's.
void AtariEnv::seed(std::uint64_t seed) {
  const auto words = SeedSequence(seed).words(2);
  random_ = NumpyGenerator(words[0]);
  console_.power_on(words[1]);
  seeded_ = true;
}

// A reset that somebody asks for starts a new game, however the last episode ended.
void AtariEnv::reset() {
  if (!seeded_) seed(0);
  start_game();
  begin_episode();
}

void AtariEnv::start_game() {
  console_.reset();
  const auto noops = draw_noops();
  for (int i = 0; i < noops; ++i)
    if (!advance(ale::PLAYER_A_NOOP)) console_.reset();
  if (options_.use_fire_reset && has_fire_ && !advance(ale::PLAYER_A_FIRE)) console_.reset();
  look();
  push(true);
}

// After a lost life the game goes on as it began: no-ops, then a new serve.
bool AtariEnv::play_on() {
  if (!life_lost_) return false;
  const auto noops = draw_noops();
  for (int i = 0; i < noops; ++i)
    if (!advance(ale::PLAYER_A_NOOP)) return false;
  if (options_.use_fire_reset && has_fire_ && !advance(ale::PLAYER_A_FIRE)) return false;
  look();
  push(false);
  begin_episode();
  return true;
}

void AtariEnv::begin_episode() {
  life_lost_ = game_over_ = false;
  lives_ = console_.lives();
  raw_reward_ = 0;
  discount_ = 1;
}

std::int64_t AtariEnv::draw_noops() { return options_.noop_max > 0 ? random_.integers(1, options_.noop_max + 1) : 0; }

// Plays one frame; returns false if the game is over.
bool AtariEnv::advance(ale::Action action) {
  raw_reward_ += static_cast<float>(console_.act(action));
  return !console_.over();
}

// A first frame is pooled with no earlier one.
void AtariEnv::look() {
  for (int plane = 0; plane < planes(); ++plane)
    changed_[plane] = paint(console_.screen(), tables_[plane], pooled_.data() + plane * pixels_, pixels_);
}

StepResult AtariEnv::step(const Action& action) {
  const ale::Action press = actions_[static_cast<std::size_t>(action.get(shown_.action))];
  const int skip = options_.frame_skip;
  raw_reward_ = 0;
  const std::uint8_t* second_last = nullptr;
  int frame = 0;
  for (; frame < skip && advance(press); ++frame)
    if (frame == skip - 2) second_last = console_.screen_for_next_frame();
  const bool whole = frame == skip;
  for (int plane = 0; plane < planes(); ++plane) {
    auto* pooled = pooled_.data() + plane * pixels_;
    if (whole) {
      const auto* before = second_last ? second_last : console_.screen();
      changed_[plane] = pool(console_.screen(), before, tables_[plane], pooled, pixels_);
    } else if (second_last) {
      pool_onto(second_last, tables_[plane], pooled, pixels_);
      changed_[plane] = kAllChanged;
    } else {
      changed_[plane] = 0;
    }
  }
  push(false);

  const int before = lives_;
  lives_ = console_.lives();
  game_over_ = !whole;
  life_lost_ = options_.episodic_life && !game_over_ && 0 < lives_ && lives_ < before;
  const bool done = game_over_ || life_lost_;
  discount_ = done || (options_.zero_discount_on_life_loss && lives_ < before) ? 0.0f : 1.0f;
  return {options_.reward_clip ? sign(raw_reward_) : raw_reward_, done, false};
}

// Resizes the pooled frame into the ring: over the oldest frame, or as every frame of a new game. Most of its pixels
// are those of the newest frame.
void AtariEnv::push(bool fill) {
  const auto* before = stack_.data() + newest_ * frame_bytes();
  newest_ = (newest_ + 1) % options_.stack_num;
  auto* frame = stack_.data() + newest_ * frame_bytes();
  const std::size_t plane_bytes = frame_bytes() / planes();
  for (int plane = 0; plane < planes(); ++plane)
    resize_(pooled_.data() + plane * pixels_, frame + plane * plane_bytes, before + plane * plane_bytes,
            changed_[plane]);
  if (!fill) return;
  for (int i = 0; i < options_.stack_num; ++i)
    if (i != newest_) std::memcpy(stack_.data() + i * frame_bytes(), frame, frame_bytes());
}

// The oldest frame comes first.
void AtariEnv::observe(const Row& row) const {
  const std::size_t newer = (newest_ + 1) * frame_bytes();
  const auto obs = row[shown_.obs];
  std::memcpy(obs.data(), stack_.data() + newer, stack_.size() - newer);
  std::memcpy(obs.data() + stack_.size() - newer, stack_.data(), newer);
  row.set(shown_.lives, lives_);
  row.set(shown_.reward, raw_reward_);
  row.set(shown_.terminated, game_over_);
  row.set(shown_.ram, {console_.ram(), Console::kRam});
  if (shown_.discount) row.set(*shown_.discount, discount_);
}

void AtariEnv::save(Writer& out) const {
  out.value(static_cast<std::uint64_t>(stack_.size()));
  out.value(static_cast<std::uint64_t>(pooled_.size()));
  console_.save(out);
  random_.save(out);
  out.value(seeded_);
  out.bytes(pooled_.data(), pooled_.size());
  out.bytes(stack_.data(), stack_.size());
  out.value(newest_);
  out.value(lives_);
  out.value(raw_reward_);
  out.value(discount_);
  out.value(game_over_);
  out.value(life_lost_);
}

void AtariEnv::load(Reader& in) {
  if (in.value<std::uint64_t>() != stack_.size() || in.value<std::uint64_t>() != pooled_.size())
    throw std::runtime_error("saved state has another frame size or stack");
  console_.load(in);
  random_.load(in);
  seeded_ = in.value<bool>();
  in.bytes(pooled_.data(), pooled_.size());
  in.bytes(stack_.data(), stack_.size());
  newest_ = in.value<int>();
  if (newest_ < 0 || newest_ >= options_.stack_num) throw std::runtime_error("saved state is corrupt");
  lives_ = in.value<int>();
  raw_reward_ = in.value<float>();
  discount_ = in.value<float>();
  game_over_ = in.value<bool>();
  life_lost_ = in.value<bool>();
}

void AtariEnv::render(std::uint8_t* rgb) const {
  const std::uint8_t* screen = console_.screen();
  for (std::size_t i = 0; i < pixels_; ++i) {
    const std::uint32_t colour = console_.colour(screen[i]);
    for (int shift = 16; shift >= 0; shift -= 8) *rgb++ = static_cast<std::uint8_t>(colour >> shift);
  }
}

Simulator simulator(const Options& options) {
  const Console console(options.game, nullptr);   // reports mistakes before any thread starts
  Simulator simulator;
  simulator.spec = Shown(options);
  simulator.frame_height = console.height();
  simulator.frame_width = console.width();
  simulator.make = [options, boots = std::make_shared<BootCache>()](int) {
    return std::make_unique<AtariEnv>(options, boots);
  };
  return simulator;
}

}  // namespace headrace::atari
