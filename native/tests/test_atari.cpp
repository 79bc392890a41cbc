// Games through the engine, for the sanitizers: memory, races, and the same results for any number of threads.
// tests/envs/test_atari_alignment.py compares the games with Gymnasium.
//
// The cartridges come with the ale-py wheel. CMake names their folder; HEADRACE_ROMS names another. Without cartridges
// the program says so and returns 77, which ctest reports as skipped.
#include "../atari/atari_env.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>

#include "../atari/bare_emulator.hpp"
#include "../atari/resize.hpp"
#include "../engine/engine.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::atari;
using namespace std::chrono_literals;

namespace {

constexpr int kSkipped = 77;
constexpr int kActions = 3;   // every game has as many
constexpr auto kPatience = 120s;

std::filesystem::path roms;

template <class Change = void (*)(Options&)>
Options game(const char* name, Change change = [](Options&) {}) {
  Options options;
  options.game.rom = roms / (std::string(name) + ".bin");
  options.game.repeat_action_probability = 0.25f;
  options.noop_max = 4;   // frames are slow under sanitizers
  change(options);
  return options;
}

// Paddles, lives, two sizes of screen, frames that are cut short; every option once.
std::vector<Options> games() {
  return {
      game("pong"),
      game("breakout", [](Options& o) { o.episodic_life = o.zero_discount_on_life_loss = true; }),
      game("kaboom", [](Options& o) { o.stack_num = o.frame_skip = 1, o.noop_max = 0, o.game.mode = 0; }),
      game("air_raid", [](Options& o) { o.gray_scale = false, o.reward_clip = o.full_action_space = true; }),
      game("tic_tac_toe_3d", [](Options& o) { o.img_height = 50, o.img_width = 61, o.use_fire_reset = false; }),
      game("pitfall2", [](Options& o) { o.reuse_boots = o.use_inter_area_resize = false, o.frame_skip = 2; }),
  };
}

Settings settings_of(int n, int batch, int threads, Autoreset autoreset = Autoreset::next_step) {
  Settings s;
  s.num_envs = n, s.batch_size = batch, s.num_threads = threads, s.autoreset = autoreset;
  s.max_episode_steps = 6;
  s.seeds.resize(static_cast<std::size_t>(n));
  std::iota(s.seeds.begin(), s.seeds.end(), 1000);
  return s;
}

// The arrays of one batch, as pool/batch.py lays them out.
class Batch {
 public:
  Batch(const Engine& engine, int rows) {
    const auto& fields = engine.simulator().spec.fields();
    const auto infos = std::ranges::find_if(fields, [](auto& f) { return f.name.starts_with("info:"); });
    auto add = [this](auto first, auto last) {
      for (; first != last; ++first) bytes_.push_back(first->bytes());
    };
    add(fields.begin(), infos);
    reward_ = bytes_.size();
    bytes_.insert(bytes_.end(), {4, 1, 1, 4, 4});   // reward, terminated, truncated, env_id, elapsed_step
    add(infos, fields.end());
    finals_ = bytes_.size();
    if (engine.settings().autoreset == Autoreset::same_step) {
      add(fields.begin(), infos);
      bytes_.push_back(4);
      add(infos, fields.end());
    }
    slot.rows = rows;
    for (std::size_t size : bytes_) slot.arrays.push_back(arrays_.emplace_back(size * rows).data());
  }

  int env_id(int row) const {
    int id;
    std::memcpy(&id, arrays_[reward_ + 3].data() + row * sizeof id, sizeof id);
    return id;
  }

  // One number for all values of a row; the final: arrays have values where an episode ended.
  std::uint64_t digest(int row) const {
    const bool over = std::to_integer<bool>(arrays_[reward_ + 1][row] | arrays_[reward_ + 2][row]);
    std::uint64_t sum = 14695981039346656037u;   // FNV-1a
    for (std::size_t i = 0; i < (over ? arrays_.size() : finals_); ++i)
      for (std::byte b : std::span(arrays_[i]).subspan(row * bytes_[i], bytes_[i]))
        sum = (sum ^ std::to_integer<std::uint64_t>(b)) * 1099511628211u;
    return sum;
  }

  Slot slot;

 private:
  std::size_t reward_, finals_;   // indices of these arrays
  std::vector<std::size_t> bytes_;
  std::vector<std::vector<std::byte>> arrays_;
};

using Actions = std::vector<std::int64_t>;
using Digests = std::vector<std::vector<std::uint64_t>>;   // by environment, in the order of its steps

const std::byte* bytes(const Actions& actions) { return reinterpret_cast<const std::byte*>(actions.data()); }

std::int64_t action_of(int env_id, std::size_t step) { return (step * 7 + step / 5 + env_id) % kActions; }

void finish(Engine& engine) {
  engine.take_part();
  CHECK(engine.wait_done(kPatience));
  engine.check();
}

void reset(Engine& engine, Batch& out, const int* ids = nullptr, const std::uint64_t* seeds = nullptr) {
  engine.start_reset(ids, seeds, out.slot);
  finish(engine);
}

Digests play(Engine& engine, Batch& out, int steps, std::size_t first = 0) {
  Digests seen(static_cast<std::size_t>(out.slot.rows));
  Actions actions(seen.size());
  for (int t = 0; t < steps; ++t) {
    for (int i = 0; i < out.slot.rows; ++i) actions[i] = action_of(i, first + t);
    engine.start_step(bytes(actions), nullptr, out.slot);
    finish(engine);
    for (int i = 0; i < out.slot.rows; ++i) seen[i].push_back(out.digest(i));
  }
  return seen;
}

Digests synchronous(const Options& options, Settings settings, int steps) {
  Engine engine(simulator(options), std::move(settings));
  Batch out(engine, engine.settings().num_envs);
  reset(engine, out);
  return play(engine, out, steps);
}

Digests asynchronous(const Options& options, Settings settings, std::size_t steps) {
  Engine engine(simulator(options), std::move(settings));
  const int n = engine.settings().num_envs, batch = engine.settings().batch_size;
  std::vector<std::unique_ptr<Batch>> batches;
  std::vector<Slot> slots;
  for (int i = 0; i < engine.num_slots(); ++i)
    slots.push_back(batches.emplace_back(std::make_unique<Batch>(engine, batch))->slot);
  engine.set_slots(slots);
  auto spare = std::make_unique<Batch>(engine, batch);
  std::vector<int> ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  engine.send_reset(ids.data(), nullptr, n);

  Digests seen(ids.size());
  std::vector<bool> started(ids.size());
  while (std::ranges::any_of(seen, [steps](auto& s) { return s.size() < steps; })) {
    CHECK(engine.wait_ready(kPatience));
    engine.check_ready();
    std::swap(batches[static_cast<std::size_t>(engine.replace_ready(spare->slot))], spare);
    Actions actions;
    std::vector<int> again;
    for (int row = 0; row < batch; ++row) {
      const int id = spare->env_id(row);
      if (started[id]) seen[id].push_back(spare->digest(row));
      started[id] = true;
      again.push_back(id);
      actions.push_back(action_of(id, seen[id].size()));
    }
    engine.send_step(bytes(actions), again.data(), batch);
  }
  CHECK(engine.wait_idle(kPatience));                 // the batches go before the engine
  for (auto& digests : seen) digests.resize(steps);   // quick environments are ahead
  return seen;
}

void results_are_equal_for_any_number_of_threads(const std::vector<Options>& those) {
  auto autoreset = Autoreset::next_step;
  for (const Options& options : those) {
    const auto alone = synchronous(options, settings_of(3, 3, 1, autoreset), 10);
    CHECK(alone == synchronous(options, settings_of(3, 3, 4, autoreset), 10));
    CHECK(alone == asynchronous(options, settings_of(3, 2, 4, autoreset), 10));
    CHECK(alone[0] != alone[1]);
    autoreset = autoreset == Autoreset::next_step ? Autoreset::same_step : Autoreset::next_step;
  }
}

void some_environments_step_in_any_order() {
  Engine engine(simulator(game("pong")), settings_of(4, 4, 3, Autoreset::disabled));
  Batch all(engine, 4), two(engine, 2);
  reset(engine, all);
  const auto first = all.digest(1);
  const int ids[] = {3, 1};
  const Actions actions = {1, 2};
  engine.start_step(bytes(actions), ids, two.slot);
  finish(engine);
  CHECK(two.env_id(0) == 3 && two.env_id(1) == 1 && two.digest(1) != first);
  const std::uint64_t seeds[] = {1003, 1001};
  reset(engine, two, ids, seeds);
  CHECK(two.digest(1) == first);
}

void load(Engine& engine, int env_id, Engine::Bytes state) { engine.load({&env_id, 1}, {&state, 1}); }

void saved_states_continue() {
  for (const Options& options : games()) {
    Engine engine(simulator(options), settings_of(2, 2, 2)), other(simulator(options), settings_of(2, 2, 1));
    Batch out(engine, 2);
    reset(engine, out);
    play(engine, out, 10);
    std::vector<std::byte> blobs[2];
    for (int i : {0, 1}) engine.save(i, blobs[i]), load(other, i, blobs[i]);
    const auto ahead = play(engine, out, 12, 10);
    CHECK(ahead == play(other, out, 12, 10));
    for (int i : {0, 1}) load(engine, i, blobs[i]);
    CHECK(ahead == play(engine, out, 12, 10));
  }
}

bool is_refused(Engine& engine, std::span<const std::byte> blob) {
  try {
    load(engine, 0, blob);
    return false;
  } catch (const BadState& bad) {
    return bad.env_id == 0;
  }
}

void damaged_states_are_refused() {
  Engine pong(simulator(game("pong")), settings_of(1, 1, 1)), same(simulator(game("pong")), settings_of(1, 1, 1));
  Engine breakout(simulator(game("breakout")), settings_of(1, 1, 1));
  Engine taller(simulator(game("pong", [](Options& o) { o.stack_num = 5; })), settings_of(1, 1, 1));
  Batch out(pong, 1);
  for (Engine* engine : {&pong, &same}) reset(*engine, out), play(*engine, out, 5);
  std::vector<std::byte> blob;
  pong.save(0, blob);
  CHECK(is_refused(breakout, blob) && is_refused(taller, blob));

  for (std::size_t size = 0; size < blob.size(); size += 1 + size / 3)
    CHECK(is_refused(pong, std::span(blob).first(size)));
  CHECK(is_refused(pong, std::span(blob).first(blob.size() - 1)));
  for (std::size_t at = 0; at < blob.size(); at += 211) {
    auto garbled = blob;
    garbled[at] ^= std::byte(1 << at % 8);
    CHECK(is_refused(pong, garbled));
  }
  auto longer = blob;
  longer.push_back({});
  CHECK(is_refused(pong, longer));
  CHECK(play(pong, out, 10, 5) == play(same, out, 10, 5));   // no refused state has changed anything
}

// Somebody who knows how states are sealed changes one: it is refused or played, and harms nothing.
void changed_states_are_refused_or_played() {
  for (const auto& options : games()) {
    Engine engine(simulator(options), settings_of(1, 1, 1));
    Batch out(engine, 1);
    reset(engine, out), play(engine, out, 5);
    std::vector<std::byte> blob;
    engine.save(0, blob);
    int refused = 0, taken = 0;
    for (std::size_t at = 0; at + 8 < blob.size(); at += at < 9500 ? 173 : 8191) {
      auto changed = blob;
      changed[at] ^= std::byte(1 << at % 8);
      const auto sum = checksum(std::span(changed).first(blob.size() - 8));
      std::memcpy(&changed[blob.size() - 8], &sum, sizeof sum);
      if (is_refused(engine, changed)) {
        ++refused;
      } else if (++taken % 8 == 0) {
        play(engine, out, 1);
      }
    }
    CHECK(refused > 5 && taken > 5);
  }
}

// A picture of the right size has an edge, past which the sanitizer looks.
void pictures_show_more_than_one_colour() {
  for (const Options& options : {game("pong"), game("air_raid")}) {
    Engine engine(simulator(options), settings_of(1, 1, 1));
    Batch out(engine, 1);
    reset(engine, out);
    play(engine, out, 20);
    const auto& of = engine.simulator();
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(of.frame_height * of.frame_width * 3));
    engine.render(0, rgb.data());
    CHECK(std::ranges::count(rgb, rgb[0]) < std::ssize(rgb) - 1000);
  }
}

void bad_cartridges_are_refused() {
  const auto folder = std::filesystem::temp_directory_path();
  const auto file = folder / ("headrace_test_atari_" + std::to_string(std::rand()) + ".bin");
  auto refused = [](const Options& options) {
    try {
      simulator(options);
      return false;
    } catch (const std::exception&) {
      return true;
    }
  };
  Options options;
  for (const auto& rom : {folder / "no such file.bin", folder, file}) {
    options.game.rom = rom;
    CHECK(refused(options));
  }
  for (std::size_t size : {0, 1, 2048, 4096, 70000}) {
    std::ofstream(file, std::ios::binary) << std::string(size, '\x5a');
    options.game.rom = file;
    CHECK(refused(options));
  }
  std::filesystem::remove(file);
  CHECK(refused(game("pong", [](Options& o) { o.game.mode = 77; })));
  CHECK(refused(game("pong", [](Options& o) { o.game.difficulty = 9; })));
}

// An engine may be destroyed while its threads are busy with actions that were sent.
void an_engine_ends_with_actions_in_flight() {
  for (int round = 0; round < 2; ++round) {
    std::vector<Batch> batches;
    std::vector<int> ids = {0, 1, 2, 3, 4};
    Engine engine(simulator(game("breakout")), settings_of(5, 1, 3));
    std::vector<Slot> slots;
    for (int i = 0; i < engine.num_slots(); ++i) slots.push_back(batches.emplace_back(engine, 1).slot);
    engine.set_slots(slots);
    engine.send_reset(ids.data(), nullptr, 5);
  }
}

// All instruction sets give the same bytes, at sizes that fill no register.
void instruction_sets_give_the_same_pictures() {
  Table table;
  std::iota(table.begin(), table.end(), std::uint8_t{3});
  for (int height : {210, 250, 33})
    for (int width : {160, 47}) {
      std::vector<std::uint8_t> a(static_cast<std::size_t>(height * width)), b(a.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = static_cast<std::uint8_t>(i * 37), b[i] = static_cast<std::uint8_t>(i * i);
      std::vector<std::vector<std::uint8_t>> results;
      for (auto level : {Level::plain, Level::avx2, Level::avx512}) {
        level = std::min(level, best_level());
        std::vector<std::uint8_t> pooled(a.size()), small(84 * 84);
        pool(a.data(), b.data(), table, pooled.data(), pooled.size(), level);
        Resizer(height, width, 84, 84, true, level)(pooled.data(), small.data());
        pooled.insert(pooled.end(), small.begin(), small.end());
        results.push_back(pooled);
      }
      CHECK(results[0] == results[1] && results[0] == results[2]);
    }
}

// A frame that is made of the one before it and of its changes equals the frame that is made anew.
void changed_pictures_equal_new_ones() {
  Table table;
  std::iota(table.begin(), table.end(), std::uint8_t{3});
  std::mt19937 random(1);
  for (const int height : {210, 250})
    for (auto level : {Level::plain, Level::avx2, Level::avx512}) {
      level = std::min(level, best_level());
      const std::size_t n = static_cast<std::size_t>(height) * 160;
      std::vector<std::uint8_t> a(n), b(n), pooled(n), anew(n), frame(84 * 84), next(frame), whole(frame);
      Resizer resize(height, 160, 84, 84, true, level);
      resize(pooled.data(), frame.data());
      for (int round = 0; round < 60; ++round) {
        for (unsigned writes = random() % 4; writes > 0; --writes) {  // none, or a few pixels of any value, or a run
          const std::size_t first = random() % (n - 90), count = random() % 90;
          const auto pixel = static_cast<std::uint8_t>(random());
          const unsigned where = random() % 3;  // in one of the frames, or in both
          if (where != 0) std::fill_n(a.begin() + first, count, pixel);
          if (where != 1) std::fill_n(b.begin() + first, count, pixel);
        }
        const auto before = pooled;
        const Changed changed = pool(a.data(), b.data(), table, pooled.data(), n, level);
        for (std::size_t i = 0; i < n; ++i) CHECK(pooled[i] == before[i] || (changed >> i / kStrip & 1));
        CHECK((changed == 0) == (pooled == before));
        pool(a.data(), b.data(), table, anew.data(), n, Level::plain);
        resize(anew.data(), whole.data());
        resize(pooled.data(), next.data(), frame.data(), changed);
        CHECK(next == whole);
        resize(pooled.data(), frame.data(), frame.data(), changed);  // in place
        CHECK(frame == whole);
      }
    }
}

void a_bare_emulator_makes_steps() { CHECK(bare_emulator(game("pong").game.rom, 2, 0.1, 1, 4).steps > 0); }

}  // namespace

int main(int argc, char** argv) {
  const char* named = std::getenv("HEADRACE_ROMS");
  roms = named ? named : argc > 1 ? argv[1] : "";
  if (!std::filesystem::is_regular_file(roms / "pong.bin")) {
    std::printf("test_atari: SKIPPED, there are no cartridges in '%s' (the ale-py wheel brings them)\n", roms.c_str());
    return kSkipped;
  }
  // Under the thread sanitizer a frame takes milliseconds, and it finds nothing in one thread.
#ifdef __SANITIZE_THREAD__
  results_are_equal_for_any_number_of_threads({games()[0], games()[1]});
#else
  results_are_equal_for_any_number_of_threads(games());
  some_environments_step_in_any_order();
  saved_states_continue();
  damaged_states_are_refused();
  changed_states_are_refused_or_played();
  pictures_show_more_than_one_colour();
  bad_cartridges_are_refused();
  instruction_sets_give_the_same_pictures();
  changed_pictures_equal_new_ones();
#endif
  an_engine_ends_with_actions_in_flight();
  a_bare_emulator_makes_steps();
  std::puts("test_atari: all passed");
}
