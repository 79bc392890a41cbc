// One emulated console with a game in it: the emulator behind the few calls that an environment needs, with two things
// that the emulator's own interface lacks: saved states that continue bit by bit, and resets that need not boot again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "ale/ale_interface.hpp"
#include "engine/environment.hpp"

namespace headrace::atari {

class BootCache;

struct Game {
  std::filesystem::path rom;
  int mode = -1;         // -1: the game's default
  int difficulty = -1;
  float repeat_action_probability = 0;
  bool original = false;   // with the emulator's own processor and picture chip, not those of machine/
};

class Console {
 public:
  static constexpr std::size_t kRam = 128;

  // Throws std::runtime_error for a missing or unknown ROM, and std::invalid_argument for a mode or difficulty that the
  // game does not have. If boots is null, every reset boots.
  Console(Game game, std::shared_ptr<BootCache> boots);

  // Makes the console as good as new; sticky actions are drawn from this seed.
  void power_on(std::uint32_t seed);

  // Presses the reset switch; random streams go on.
  void reset();

  // Plays one frame; returns the reward.
  int act(ale::Action action) { return ale_.act(action); }

  bool over() const { return ale_.game_over(false); }
  int lives() { return ale_.lives(); }
  int height() const { return static_cast<int>(ale_.getScreen().height()); }
  int width() const { return static_cast<int>(ale_.getScreen().width()); }
  const std::uint8_t* screen() const;            // colour indices, 0–255
  const std::uint8_t* screen_for_next_frame();   // the present one, to be read after one more frame
  const std::uint8_t* ram() const { return ale_.getRAM().array(); }
  std::uint32_t colour(int index) const { return ale_.theOSystem->colourPalette().getRGB(index); }  // 0xRRGGBB
  std::vector<ale::Action> actions(bool full) const;
  const std::vector<ale::game_mode_t>& modes() const { return modes_; }
  const std::vector<ale::difficulty_t>& difficulties() const { return difficulties_; }

  // The machine's position, by which one finds out cheaply whether two machines are alike.
  struct Trace {
    std::uint32_t cycles, collisions;
    bool operator==(const Trace&) const = default;
  };
  Trace trace() const;

  ale::stella::System& system() { return ale_.theOSystem->console().system(); }

  // Everything, with random streams; `load` throws std::runtime_error for another game's state.
  void save(Writer& out) const;
  void load(Reader& in);

 private:
  void load_rom();
  void save_machine(Writer& out, bool with_rng) const;
  void load_machine(Reader& in);
  void check(Reader in) const;
  void boot_and_remember(int timer);
  void follow_draws();
  void set_draws(const std::mt19937& draws);

  Game game_;
  std::shared_ptr<BootCache> boots_;
  mutable ale::ALEInterface ale_;
  std::vector<ale::game_mode_t> modes_;
  std::vector<ale::difficulty_t> difficulties_;
  std::vector<std::uint8_t> kept_screen_;
  std::vector<std::byte> fresh_;   // the machine when the game had been loaded
  std::mt19937 draws_;   // the twin of the console's own generator, which tells its next draws
};

}  // namespace headrace::atari
