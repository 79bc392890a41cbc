// The extension module headrace_atari._atari.
#include "engine/module.hpp"

#include <nanobind/stl/tuple.h>

#include "atari_env.hpp"
#include "bare_emulator.hpp"
#include "workbench.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::atari {
namespace {

using Pixels = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Image = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<2>>;

struct GameInfo {
  std::vector<int> actions, full_actions, modes, difficulties;
  int height, width;
};

GameInfo game_info(const std::string& rom) {
  nb::gil_scoped_release unlocked;
  const Console console({rom}, nullptr);
  auto ints = [](const auto& values) { return std::vector<int>(values.begin(), values.end()); };
  return {ints(console.actions(false)),
          ints(console.actions(true)),
          ints(console.modes()),
          ints(console.difficulties()),
          console.height(),
          console.width()};
}

Image new_image(std::size_t height, std::size_t width) {
  auto* data = new std::uint8_t[height * width]();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::uint8_t*>(p); });
  return Image(data, {height, width}, owner);
}

Level level_of(const std::string& name) {
  const Level wanted = name == "plain" ? Level::plain : name == "avx2" ? Level::avx2 : Level::avx512;
  return name == "best" ? best_level() : std::min(wanted, best_level());
}

Image resized(const Pixels& src, int height, int width, bool area, const std::string& level) {
  Image out = new_image(height, width);
  Resizer resize(static_cast<int>(src.shape(0)), static_cast<int>(src.shape(1)), height, width, area, level_of(level));
  resize(src.data(), out.data());
  return out;
}

Image pooled(const Pixels& a, const Pixels& b, const std::vector<std::uint8_t>& table, const std::string& level) {
  if (table.size() != 256 || a.size() != b.size()) throw nb::value_error("a table has 256 entries, frames one size");
  Table fixed;
  std::copy(table.begin(), table.end(), fixed.begin());
  Image out = new_image(a.shape(0), a.shape(1));
  pool(a.data(), b.data(), fixed, out.data(), a.size(), level_of(level));
  return out;
}

// Returns the seconds for one frame: pool, resize, and copy a stack of four.
double preprocessing_time(const Pixels& a, const Pixels& b, const std::vector<std::uint8_t>& table, int repeats,
                          const std::string& name) {
  const Level level = level_of(name);
  Table fixed;
  std::copy_n(table.begin(), 256, fixed.begin());
  Resizer resize(static_cast<int>(a.shape(0)), static_cast<int>(a.shape(1)), 84, 84, true, level);
  std::vector<std::uint8_t> second(a.size()), frame(a.size()), stack(4 * 84 * 84), obs(stack.size());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    std::memcpy(second.data(), b.data(), b.size());
    pool(a.data(), second.data(), fixed, frame.data(), a.size(), level);
    resize(frame.data(), stack.data() + i % 4 * 84 * 84);
    std::memcpy(obs.data(), stack.data(), stack.size());
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

std::span<const std::uint8_t> bytes_of(const nb::bytes& bytes) {
  return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

void bind_workbench(nb::module_& m) {
  using Registers = Workbench::Registers;
  nb::class_<Registers>(m, "Registers", "Of the console's processor.")
      .def_ro("a", &Registers::a)
      .def_ro("x", &Registers::x)
      .def_ro("y", &Registers::y)
      .def_ro("sp", &Registers::sp)
      .def_ro("status", &Registers::status)
      .def_ro("pc", &Registers::pc)
      .def_ro("jammed", &Registers::jammed);
  nb::class_<Workbench>(m, "Workbench", "A console whose cartridge is a program of a test's, an instruction at a time.")
      .def(
          "__init__",
          [](Workbench* self, const std::string& rom, bool original) { new (self) Workbench(rom, original); }, "rom"_a,
          "original"_a = false)
      .def(
          "start",
          [](Workbench& self, const nb::bytes& program, const nb::bytes& memory) {
            if (memory.size() != Workbench::kMemory) throw nb::value_error("memory has 128 bytes");
            self.start(bytes_of(program), bytes_of(memory).first<Workbench::kMemory>());
          },
          "program"_a, "memory"_a, "A reset with these bytes in the cartridge and in memory.")
      .def("instructions", &Workbench::instructions, "n"_a)
      .def_prop_ro("size", &Workbench::size)
      .def_prop_ro("registers", &Workbench::registers)
      .def_prop_ro("cycles", &Workbench::cycles)
      .def_prop_ro("memory", [](Workbench& self) {
        const auto memory = self.memory();
        return nb::bytes(memory.data(), memory.size());
      });
}

}  // namespace
}  // namespace headrace::atari

NB_MODULE(_atari, m) {
  using namespace headrace;
  using namespace headrace::atari;
  m.doc() = "Atari environments on the Arcade Learning Environment's emulator.";
  bind_engine(m);

  nb::class_<GameInfo>(m, "GameInfo", "What a cartridge offers: action numbers, modes, difficulties, screen size.")
      .def_ro("actions", &GameInfo::actions)
      .def_ro("full_actions", &GameInfo::full_actions)
      .def_ro("modes", &GameInfo::modes)
      .def_ro("difficulties", &GameInfo::difficulties)
      .def_ro("height", &GameInfo::height)
      .def_ro("width", &GameInfo::width);
  m.def("game_info", &game_info, "rom"_a, "Read a cartridge; raises RuntimeError for a missing or unknown one.");

  m.def(
      "simulator",
      [](const std::string& rom, int mode, int difficulty, float repeat_action_probability, int stack_num,
         int frame_skip, int noop_max, int img_height, int img_width, bool gray_scale, bool use_inter_area_resize,
         bool full_action_space, bool episodic_life, bool zero_discount_on_life_loss, bool reward_clip,
         bool use_fire_reset, bool reuse_boots, bool original) {
        return simulator({{rom, mode, difficulty, repeat_action_probability, original},
                          stack_num,
                          frame_skip,
                          noop_max,
                          img_height,
                          img_width,
                          gray_scale,
                          use_inter_area_resize,
                          full_action_space,
                          episodic_life,
                          zero_discount_on_life_loss,
                          reward_clip,
                          use_fire_reset,
                          reuse_boots});
      },
      nb::kw_only(), "rom"_a, "mode"_a, "difficulty"_a, "repeat_action_probability"_a, "stack_num"_a, "frame_skip"_a,
      "noop_max"_a, "img_height"_a, "img_width"_a, "gray_scale"_a, "use_inter_area_resize"_a, "full_action_space"_a,
      "episodic_life"_a, "zero_discount_on_life_loss"_a, "reward_clip"_a, "use_fire_reset"_a, "reuse_boots"_a = true,
      "original"_a = false, "The simulator of one game; options are those of headrace.envs.atari, which checks them.");

  m.def(
      "bare_emulator",
      [](const std::string& rom, int num_threads, double seconds, std::uint64_t seed, int frame_skip, bool original) {
        nb::gil_scoped_release unlocked;
        const BareRun run = bare_emulator(rom, num_threads, seconds, seed, frame_skip, original);
        return std::make_tuple(run.steps, run.seconds);
      },
      "rom"_a, "num_threads"_a = 1, "seconds"_a = 1.0, "seed"_a = 0, "frame_skip"_a = 4, "original"_a = false,
      "Step emulators on threads with random actions and nothing else: (steps, seconds).");

  // These are for tests and benchmarks.
  bind_workbench(m);
  m.def("resized", &resized, "src"_a, "height"_a, "width"_a, "area"_a = true, "level"_a = "best",
        "A frame resized as the environments do it.");
  m.def("pooled", &pooled, "a"_a, "b"_a, "table"_a, "level"_a = "best",
        "The larger of two frames' pixels, looked up in a table.");
  m.def("preprocessing_time", &preprocessing_time, "a"_a, "b"_a, "table"_a, "repeats"_a = 1000, "level"_a = "best",
        "Seconds to turn two 210 x 160 frames into an 84 x 84 one and copy a stack of four.");
  m.def(
      "numpy_integers",
      [](std::uint64_t seed, std::int64_t low, std::int64_t high, int n) {
        NumpyGenerator random(seed);
        std::vector<std::int64_t> out(n);
        for (auto& x : out) x = random.integers(low, high);
        return out;
      },
      "seed"_a, "low"_a, "high"_a, "n"_a, "n draws of numpy.random.default_rng(seed).integers(low, high).");
  m.def(
      "seed_sequence", [](std::uint64_t seed, int n) { return SeedSequence(seed).words(n); }, "seed"_a, "n"_a,
      "numpy.random.SeedSequence(seed).generate_state(n).");
}
