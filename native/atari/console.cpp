#include "console.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "ale/emucore/Console.hxx"
#include "ale/emucore/System.hxx"
#include "ale/emucore/TIA.hxx"
#include "boot_cache.hpp"
#include "expose.hpp"
#include "machine/processor.hpp"
#include "machine_check.hpp"

namespace headrace::atari {
namespace {

using ale::stella::Deserializer;
using ale::stella::Serializer;
using ale::stella::System;
using ale::stella::TIA;

// The emulator's own saved state lacks a few things that show for a frame or more: the pixels that the picture chip is
// about to draw, the last two pictures, and the action that a sticky step would repeat.
HEADRACE_EXPOSE(PartialFrame, TIA::myPartialFrameFlag);
HEADRACE_EXPOSE(FrameGreyed, TIA::myFrameGreyed);
HEADRACE_EXPOSE(Collisions, TIA::myCollision);
HEADRACE_EXPOSE(FramePointer, TIA::myFramePointer);
HEADRACE_EXPOSE(BallMask, TIA::myCurrentBLMask);
HEADRACE_EXPOSE(Missile0Mask, TIA::myCurrentM0Mask);
HEADRACE_EXPOSE(Missile1Mask, TIA::myCurrentM1Mask);
HEADRACE_EXPOSE(Player0Mask, TIA::myCurrentP0Mask);
HEADRACE_EXPOSE(Player1Mask, TIA::myCurrentP1Mask);
HEADRACE_EXPOSE(PlayfieldMask, TIA::myCurrentPFMask);
HEADRACE_EXPOSE(BallTable, TIA::ourBallMaskTable);
HEADRACE_EXPOSE(MissileTable, TIA::ourMissleMaskTable);
HEADRACE_EXPOSE(PlayerTable, TIA::ourPlayerMaskTable);
HEADRACE_EXPOSE(DisabledTable, TIA::ourDisabledMaskTable);
HEADRACE_EXPOSE(PlayfieldTable, TIA::ourPlayfieldTable);
HEADRACE_EXPOSE(LastAction, ale::StellaEnvironment::m_player_a_action);

[[noreturn]] void corrupt() { throw std::runtime_error("saved state is corrupt"); }

// The place to which a pointer into one of the chip's constant tables points, without addresses.
struct Position {
  std::int32_t table = -1;
  std::int32_t offset = 0;
};

std::vector<std::span<const std::uint8_t>> mask_tables() {
  auto bytes = [](const auto* table) { return std::span(reinterpret_cast<const std::uint8_t*>(table), sizeof *table); };
  return {bytes(member(BallTable{})), bytes(member(MissileTable{})), bytes(member(PlayerTable{})),
          bytes(member(DisabledTable{})), bytes(member(PlayfieldTable{}))};
}

template <class T>
void save_pointer(Writer& out, const T* pointer) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(pointer);
  Position at;
  const auto tables = mask_tables();
  for (std::size_t i = 0; i < tables.size(); ++i)
    if (p >= tables[i].data() && p < tables[i].data() + tables[i].size())
      at = {static_cast<std::int32_t>(i), static_cast<std::int32_t>(p - tables[i].data())};
  out.value(at);
}

// The tables of mask_tables() that belong to each object.
enum : std::int32_t { kBalls, kMissiles, kPlayers, kDisabled, kPlayfields };

// A line of 160 pixels must lie within one row of the object's own table, whose rows hold two lines.
template <class T>
void load_pointer(Reader& in, const T*& pointer, std::int32_t own) {
  constexpr int line = 160;
  const auto at = in.value<Position>();
  const auto tables = mask_tables();
  if (at.table == -1) return;   // it was never drawn
  constexpr bool of_playfield = sizeof(T) > 1;
  const bool hidden = own == kMissiles && at.table == kDisabled && at.offset == 0;
  if (!hidden && (at.table != own || at.offset < 0 || at.offset >= static_cast<int>(tables[own].size()))) corrupt();
  if (of_playfield ? at.offset % (line * sizeof(T)) != 0 : at.offset % (2 * line) > line || at.offset % 4 != 0)
    corrupt();
  pointer = reinterpret_cast<const T*>(tables[at.table].data() + at.offset);
}

// Only errors are worth a line. The function returns the constructor's argument, so that it runs first.
bool quiet_emulator() {
  static const bool once = (ale::Logger::setMode(ale::Logger::Error), false);   // all consoles share the logger
  return once;
}

TIA& tia(ale::ALEInterface& ale) { return ale.theOSystem->console().system().tia(); }

std::string fingerprint(ale::ALEInterface& ale) {
  return ale.theOSystem->console().properties().get(ale::stella::Cartridge_MD5);
}

std::mt19937 draws_of(ale::stella::Random& rng) {
  Serializer out;
  rng.saveState(out);
  Deserializer in(out.get_str());
  std::istringstream text(in.getString());
  std::mt19937 twin;
  text >> twin;
  return twin;
}

}  // namespace

Console::Console(Game game, std::shared_ptr<BootCache> boots)
    : game_(std::move(game)), boots_(std::move(boots)), ale_(quiet_emulator()) {
  // The emulator would end the process.
  if (!std::filesystem::is_regular_file(game_.rom)) throw std::runtime_error("no ROM at " + game_.rom.string());
  if (!ale::ALEInterface::isSupportedROM(game_.rom))
    throw std::runtime_error(game_.rom.string() + " is not a ROM that the emulator supports");
  load_rom();
}

void Console::load_rom() {
  ale_.setFloat("repeat_action_probability", game_.repeat_action_probability);
  ale_.setInt("random_seed", 0);
  ale_.setBool("color_averaging", true);   // nothing is averaged: see colour_averaging.cpp
  ale_.loadROM(game_.rom);
  if (!game_.original) install(ale_.theOSystem->console().system());
  modes_ = ale_.getAvailableModes();
  difficulties_ = ale_.getAvailableDifficulties();
  auto checked = [](const auto& known, int wanted, const char* what) {
    if (std::ranges::find(known, static_cast<unsigned>(wanted)) == known.end())
      throw std::invalid_argument("the game has no " + std::string(what) + " " + std::to_string(wanted));
    return static_cast<unsigned>(wanted);
  };
  if (game_.mode >= 0) ale_.setMode(checked(modes_, game_.mode, "mode"));
  if (game_.difficulty >= 0) ale_.setDifficulty(checked(difficulties_, game_.difficulty, "difficulty"));
  Writer writer(fresh_);
  save_machine(writer, false);
  follow_draws();
}

// To load the game again would give this very state, only slower.
void Console::power_on(std::uint32_t seed) {
  Reader reader(fresh_);
  load_machine(reader);
  follow_draws();
  ale_.environment->getEnvironmentRNG().seed(seed);
}

const std::uint8_t* Console::screen() const { return tia(ale_).currentFrameBuffer(); }

// The chip draws into two buffers by turns, unless it has yet to finish a frame.
const std::uint8_t* Console::screen_for_next_frame() {
  TIA& chip = tia(ale_);
  if (!(chip.*member(PartialFrame{}))) return chip.currentFrameBuffer();
  kept_screen_.assign(screen(), screen() + ale_.getScreen().arraySize());
  return kept_screen_.data();
}

std::vector<ale::Action> Console::actions(bool full) const {
  return full ? ale_.getLegalActionSet() : ale_.getMinimalActionSet();
}

Console::Trace Console::trace() const {
  return {ale_.theOSystem->console().system().cycles(), tia(ale_).*member(Collisions{})};
}

// ---- resets -----------------------------------------------------------------------------------

void Console::reset() {
  if (!boots_ || tia(ale_).*member(PartialFrame{})) {   // a frame that was cut short runs on into the boot
    ale_.reset_game();
    follow_draws();
    return;
  }
  auto draws = draws_;
  const int timer = 25 + static_cast<int>(draws() % 75);   // M6532::reset does so
  if (const SavedBoot boot = boots_->find(timer)) {
    Reader reader(*boot);
    load_machine(reader);
    set_draws(draws);
  } else {
    boot_and_remember(timer);
  }
}

void Console::boot_and_remember(int timer) {
  auto expected = draws_;
  expected();
  bool alike, any_timer;
  {
    BootWatch watch(ale_.theOSystem->console().system());
    ale_.reset_game();
    alike = !watch.depends_on_memory();
    any_timer = !watch.depends_on_timer();
  }
  follow_draws();
  // A few games choose their mode by playing, with sticky actions; a cartridge with its own memory draws the memory's
  // contents.
  const bool played = ale_.getEpisodeFrameNumber() != 0;
  if (!alike || played || draws_ != expected || tia(ale_).*member(PartialFrame{})) return;
  std::vector<std::byte> blob;
  Writer writer(blob);
  save_machine(writer, false);
  boots_->add(any_timer ? BootCache::kAnyTimer : timer,
              std::make_shared<const std::vector<std::byte>>(std::move(blob)));
}

void Console::follow_draws() { draws_ = draws_of(ale_.theOSystem->console().system().rng()); }

void Console::set_draws(const std::mt19937& draws) {
  std::ostringstream text;
  text << draws;
  Serializer out;
  out.putString(text.str());
  Deserializer in(out.get_str());
  ale_.theOSystem->console().system().rng().loadState(in);
  draws_ = draws;
}

// ---- saved states -----------------------------------------------------------------------------

void Console::save_machine(Writer& out, bool with_rng) const {
  out.text(ale_.cloneState(with_rng).serialize());
  TIA& chip = tia(ale_);
  const std::size_t pixels = ale_.getScreen().arraySize();
  out.bytes(chip.currentFrameBuffer(), pixels);
  out.bytes(chip.previousFrameBuffer(), pixels);
  out.value(static_cast<std::int64_t>(chip.*member(FramePointer{}) - chip.currentFrameBuffer()));
  out.value(chip.*member(PartialFrame{}));
  out.value(chip.*member(FrameGreyed{}));
  save_pointer(out, chip.*member(BallMask{}));
  save_pointer(out, chip.*member(Missile0Mask{}));
  save_pointer(out, chip.*member(Missile1Mask{}));
  save_pointer(out, chip.*member(Player0Mask{}));
  save_pointer(out, chip.*member(Player1Mask{}));
  save_pointer(out, chip.*member(PlayfieldMask{}));
  out.value((*ale_.environment).*member(LastAction{}));
}

void Console::load_machine(Reader& in) {
  ale_.restoreState(ale::ALEState(in.text()));
  TIA& chip = tia(ale_);
  const std::size_t pixels = ale_.getScreen().arraySize();
  in.bytes(chip.currentFrameBuffer(), pixels);
  in.bytes(chip.previousFrameBuffer(), pixels);
  const auto offset = in.value<std::int64_t>();
  chip.*member(FramePointer{}) = chip.currentFrameBuffer() + offset;
  chip.*member(PartialFrame{}) = in.value<bool>();
  chip.*member(FrameGreyed{}) = in.value<bool>();
  load_pointer(in, chip.*member(BallMask{}), kBalls);
  load_pointer(in, chip.*member(Missile0Mask{}), kMissiles);
  load_pointer(in, chip.*member(Missile1Mask{}), kMissiles);
  load_pointer(in, chip.*member(Player0Mask{}), kPlayers);
  load_pointer(in, chip.*member(Player1Mask{}), kPlayers);
  load_pointer(in, chip.*member(PlayfieldMask{}), kPlayfields);
  const auto action = in.value<std::int32_t>();
  if (action < ale::PLAYER_A_NOOP || action >= PLAYER_A_MAX) corrupt();
  (*ale_.environment).*member(LastAction{}) = static_cast<ale::Action>(action);
}

void Console::save(Writer& out) const {
  out.text(fingerprint(ale_));
  save_machine(out, true);
}

void Console::load(Reader& in) {
  if (in.text() != fingerprint(ale_)) throw std::runtime_error("saved state is of another game");
  check(in);
  load_machine(in);
  follow_draws();
}

// A copy of the reader goes ahead, as the chip's part that is saved behind the emulator's state belongs to that state.
void Console::check(Reader in) const {
  const std::string machine = in.text();
  std::vector<std::uint8_t> pictures(2 * ale_.getScreen().arraySize());
  in.bytes(pictures.data(), pictures.size());
  const auto offset = in.value<std::int64_t>();
  const bool partial = in.value<bool>();
  if (offset < 0 || offset > static_cast<std::int64_t>(160 * 300)) corrupt();
  check_machine(machine, ale_.cloneState(true).serialize(), partial, offset);
}

}  // namespace headrace::atari
