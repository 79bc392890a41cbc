// The extension module headrace.pool.executors.mujoco._mujoco.
#include "engine/module.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "bare_loop.hpp"
#include "mujoco_env.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::mujoco {
namespace {

using Array = nb::ndarray<nb::c_contig, nb::device::cpu>;

// The caller keeps the array.
Rows rows_of(const Array& array) {
  std::size_t stride = array.itemsize();
  for (std::size_t i = 1; i < array.ndim(); ++i) stride *= array.shape(i);
  return {static_cast<std::byte*>(array.data()), stride};
}

// NumPy's name of the array's type.
std::string dtype_name(const Array& array) {
  const auto dtype = array.dtype();
  const auto bits = std::to_string(dtype.bits);
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Bool: return "bool";
    case nb::dlpack::dtype_code::Int: return "int" + bits;
    case nb::dlpack::dtype_code::UInt: return "uint" + bits;
    case nb::dlpack::dtype_code::Float: return "float" + bits;
    default: throw BadSpec("a report is an array of numbers");
  }
}

std::vector<std::byte> bytes_of(const nb::bytes& bytes) {
  auto data = static_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

// The numbers that decide the view of a free, tracking or fixed camera.
Picture picture_of(int width, int height, const std::tuple<int, int, int>& camera, const std::array<double, 3>& lookat,
                   double distance, double azimuth, double elevation) {
  Picture picture;
  picture.width = width, picture.height = height;
  mjv_defaultCamera(&picture.camera);
  std::tie(picture.camera.type, picture.camera.fixedcamid, picture.camera.trackbodyid) = camera;
  std::ranges::copy(lookat, picture.camera.lookat);
  picture.camera.distance = distance, picture.camera.azimuth = azimuth, picture.camera.elevation = elevation;
  return picture;
}

// The kind of numbers that the option `physics` of a task in lanes names.
lanes::Number number_of(const std::string& physics) {
  return physics == "lanes32" ? lanes::Number::kFloat : lanes::Number::kDouble;
}

// Makes steppers for a task in lanes; its fields may be mjModel's as well.
MakeStepper stepping(const std::string& physics, lanes::Wanted wanted, int width = 0) {
  if (physics == "mujoco") return {};
  return [wanted = std::move(wanted), number = number_of(physics), width](auto model) {
    return lanes::make_stepper(model, wanted, number, width);
  };
}

// The name of a part of the task that lanes cannot step; empty if they can step all of it.
std::string why_not_in_lanes(const mjModel& model, const lanes::Wanted& wanted) {
  try {
    lanes::make_stepper(borrowed(model), wanted);
    return {};
  } catch (const lanes::Unsupported& why) {
    return why.what();
  }
}

// A model from Python's: the address of a mujoco.MjModel.
const mjModel& model_at(std::uintptr_t address) { return *reinterpret_cast<const mjModel*>(address); }

After after_of(const mjModel& model, const lanes::Wanted& wanted) {
  return {wanted.kinematics, wanted.forces, lanes::wants_all(model, wanted)};
}

// Steps simulations that Python holds, in lanes and by libmujoco, in the same way as a task's pool, to compare both.
class Trial {
 public:
  Trial(const mjModel& model, lanes::Wanted wanted)
      : model_(model), after_(after_of(model, wanted)), stepper_(lanes::make_stepper(borrowed(model), wanted)) {}

  int width() const { return stepper_->width(); }

  std::uint32_t in_lanes(const std::vector<std::uintptr_t>& addresses, int steps,
                         const std::vector<std::uintptr_t>& own) {
    std::vector<mjData*> data;
    std::vector<const mjModel*> models;
    for (const auto address : addresses) data.push_back(reinterpret_cast<mjData*>(address));
    for (const auto address : own) models.push_back(&model_at(address));
    if (data.empty() || data.size() > static_cast<std::size_t>(width()))
      throw BadSpec("there are as many simulations as lanes, or fewer");
    std::uint32_t left = 0;
    guarded([&] {
      left = stepper_->step(data, steps, models);
      for (std::size_t i = 0; after_.kinematics && !stepper_->kinematics() && i < data.size(); ++i)
        if (!(left >> i & 1)) update_kinematics(models.empty() ? model_ : *models[i], *data[i], after_.all);
    });
    return left;
  }

  void by_mujoco(std::uintptr_t model, std::uintptr_t address, int steps) const {
    mjData& data = *reinterpret_cast<mjData*>(address);
    guarded([&] {
      for (int i = 0; i < steps; ++i) mj_step(&model_at(model), &data);
      compute_after(model_at(model), data, after_);
    });
  }

 private:
  const mjModel& model_;
  After after_;
  std::unique_ptr<lanes::Stepper> stepper_;
};

}  // namespace
}  // namespace headrace::mujoco

NB_MODULE(_mujoco, m) {
  using namespace headrace;
  using namespace headrace::mujoco;
  m.doc() = "MuJoCo tasks on the engine's threads.";
  nb::set_leak_warnings(false);  // a forked process leaks its parent's objects on purpose
  bind_engine(m);
  if (!version_matches())
    throw nb::import_error(("headrace was compiled for MuJoCo " + std::to_string(mjVERSION_HEADER) + ", and " +
                            std::to_string(mj_version()) + " is installed: install headrace again")
                               .c_str());
  install_callbacks();
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const NoPictures& e) {
      raise("RenderError", e.what());
    } catch (const Unfit& e) {
      raise("OptionError", e.what());
    } catch (const lanes::Unsupported& e) {
      raise("OptionError", std::string("lanes cannot step it: ") + e.what() + "; ask for physics='mujoco'");
    }
  });

  nb::class_<Physics>(m, "Physics", "A model, a task's compiled functions, and the simulations that threads lend.")
      .def(
          "__init__",
          [](Physics* self, std::uintptr_t model, std::uintptr_t function, const nb::bytes& bounds,
             const nb::bytes& arguments, std::size_t env_id, std::size_t command,
             const std::vector<std::tuple<std::size_t, std::string, std::size_t>>& arrays,
             const std::vector<std::pair<std::string, Array>>& varying, bool keeps_forces, const std::string& physics,
             bool kinematics, bool forces, std::vector<std::string> sensors, int keyframe) {
            Program program{reinterpret_cast<Program::Function>(function),
                            bytes_of(bounds),
                            bytes_of(arguments),
                            env_id,
                            command,
                            {}};
            for (const auto& [offset, name, skipped] : arrays) program.arrays.push_back({offset, name, skipped});
            std::vector<Varying> fields;
            lanes::Wanted wanted{{}, kinematics, forces, {}, std::move(sensors)};
            for (const auto& array : program.arrays) wanted.fields.push_back(array.field);
            for (const auto& [name, array] : varying) {
              fields.push_back({name, rows_of(array), rows_of(array).stride});
              wanted.varies.push_back(name);
            }
            new (self) Physics(model_at(model), std::move(program), std::move(fields), keeps_forces,
                               stepping(physics, std::move(wanted)), keyframe);
          },
          nb::kw_only(), "model"_a, "function"_a, "bounds"_a, "arguments"_a, "env_id"_a, "command"_a, "arrays"_a,
          "varying"_a, "keeps_forces"_a, "physics"_a, "kinematics"_a, "forces"_a, "sensors"_a, "keyframe"_a = -1)
      .def_prop_ro("signature", &Physics::signature, "mjtState bits of a state row.");

  nb::class_<Studio>(m, "Studio", "Draws pictures of a pool's simulations, from one camera and of one size.")
      .def(
          "__init__",
          [](Studio* self, const Physics& physics, int width, int height, const std::tuple<int, int, int>& camera,
             const std::array<double, 3>& lookat, double distance, double azimuth, double elevation, bool effects,
             int most_geoms, std::vector<std::pair<int, bool>> flags) {
            Picture picture = picture_of(width, height, camera, lookat, distance, azimuth, elevation);
            picture.textures_vary = physics.varies("tex_data");
            picture.effects = effects, picture.most_geoms = most_geoms, picture.flags = std::move(flags);
            new (self) Studio(physics.model(), picture);
          },
          nb::kw_only(), "physics"_a, "width"_a, "height"_a, "camera"_a, "lookat"_a, "distance"_a, "azimuth"_a,
          "elevation"_a, "effects"_a, "most_geoms"_a, "flags"_a,
          "camera: its mjtCamera type, the fixed camera's number, the tracked body's number. effects: whether there\n"
          "are shadows, reflections and smooth edges. flags: mjtVisFlag, on.")
      .def("open", &Studio::open, nb::call_guard<nb::gil_scoped_release>(),
           "See that pictures can be drawn; raises RenderError.")
      .def("close", &Studio::close, nb::call_guard<nb::gil_scoped_release>(), "Free what drawing needed.");

  m.def(
      "simulator",
      [](std::shared_ptr<Physics> physics, std::shared_ptr<Studio> studio, const Array& state, const Array& actions,
         const Array& reward, const Array& terminated, const Array& accepted, const Array& warning, const Array& seed,
         const Array& drawn, const std::vector<Array>& kept, const std::optional<Array>& pixels,
         const std::optional<Array>& arrows,
         const std::vector<std::tuple<std::string, std::vector<int>, Array, std::optional<Array>, int>>& reports,
         int frame_skip, int action_repeat, bool kinematics, bool forces, std::vector<std::string> sensors, bool acts,
         bool may_refuse, int settling_steps, bool starts_unactuated) {
        const After after = after_of(*physics->model(), {physics->reads(), kinematics, forces, {}, std::move(sensors)});
        Memory memory{rows_of(state),
                      rows_of(actions),
                      rows_of(reward),
                      rows_of(terminated),
                      rows_of(accepted),
                      rows_of(warning),
                      rows_of(seed),
                      rows_of(drawn),
                      {},
                      pixels ? rows_of(*pixels) : Rows{},
                      arrows ? rows_of(*arrows) : Rows{}};
        Task task(std::move(physics), std::move(studio), std::move(memory));
        for (const auto& array : kept) task.memory.kept.emplace_back(rows_of(array), rows_of(array).stride);
        task.rules = {frame_skip, action_repeat, after, acts, may_refuse, settling_steps, starts_unactuated};
        for (const auto& [name, shape, newest, stack, depth] : reports)
          task.report(name, dtype_name(newest), shape, rows_of(newest), stack ? rows_of(*stack) : Rows{}, depth);
        return simulator(std::move(task));
      },
      nb::kw_only(), "physics"_a, "studio"_a, "state"_a, "actions"_a, "reward"_a, "terminated"_a, "accepted"_a,
      "warning"_a, "seed"_a, "drawn"_a, "kept"_a, "pixels"_a.none(), "arrows"_a.none(), "reports"_a, "frame_skip"_a,
      "action_repeat"_a, "kinematics"_a, "forces"_a, "sensors"_a, "acts"_a, "may_refuse"_a, "settling_steps"_a,
      "starts_unactuated"_a, "The simulator of one task, over arrays [N, …] that the caller keeps.");

  m.def(
      "lane_widths", [](const std::string& physics) { return lanes::widths(number_of(physics)); },
      "physics"_a = "lanes", "Numbers of simulations that one call steps on this processor, the best first.");
  m.def(
      "why_not_in_lanes",
      [](std::uintptr_t model, std::vector<std::string> reads, std::vector<std::string> varies, bool kinematics,
         bool forces, std::vector<std::string> sensors) {
        return why_not_in_lanes(model_at(model),
                                {std::move(reads), kinematics, forces, std::move(varies), std::move(sensors)});
      },
      nb::kw_only(), "model"_a, "reads"_a, "varies"_a, "kinematics"_a, "forces"_a, "sensors"_a,
      "What of a model is not stepped in lanes, or of fields that are read or vary; empty for nothing.");
  m.def(
      "left_to_mujoco",
      [](std::uintptr_t model, std::vector<std::string> reads, bool kinematics, bool forces,
         std::vector<std::string> sensors) {
        return lanes::left_to_mujoco(model_at(model), {std::move(reads), kinematics, forces, {}, std::move(sensors)});
      },
      nb::kw_only(), "model"_a, "reads"_a, "kinematics"_a, "forces"_a, "sensors"_a,
      "What a task in lanes reads and libmujoco computes after each step, for one simulation after another, by name.");

  nb::class_<Trial>(m, "Trial", "Steps simulations of a model, mujoco.MjData, in lanes and by libmujoco.")
      .def(
          "__init__",
          [](Trial* self, std::uintptr_t model, std::vector<std::string> reads, std::vector<std::string> varies,
             bool kinematics, bool forces, std::vector<std::string> sensors) {
            new (self)
                Trial(model_at(model), {std::move(reads), kinematics, forces, std::move(varies), std::move(sensors)});
          },
          nb::kw_only(), "model"_a, "reads"_a, "varies"_a, "kinematics"_a, "forces"_a, "sensors"_a,
          "The model must outlive it. Raises OptionError where lanes cannot step it.")
      .def_prop_ro("width", &Trial::width, "The most simulations that lanes step at once.")
      .def(
          "in_lanes", &Trial::in_lanes, "data"_a, "steps"_a, "models"_a = std::vector<std::uintptr_t>(),
          nb::call_guard<nb::gil_scoped_release>(),
          "Advance simulations, given as addresses, and compute what is read of them; models: theirs, if they differ.\n"
          "Returns a bit for each that was left as it was.")
      .def("by_mujoco", &Trial::by_mujoco, "model"_a, "data"_a, "steps"_a, nb::call_guard<nb::gil_scoped_release>(),
           "The same by mj_step, for one simulation of a model that may have other options.");

  m.def(
      "bare_loop",
      [](std::uintptr_t model, nb::ndarray<const double, nb::ndim<3>, nb::c_contig> states,
         nb::ndarray<const double, nb::ndim<3>, nb::c_contig> controls, int signature, int frame_skip, bool kinematics,
         bool forces, int num_threads, const std::string& physics, const std::vector<std::string>& reads,
         const std::vector<std::string>& sensors, int width) {
        nb::gil_scoped_release unlocked;
        const auto steps = static_cast<int>(states.shape(0)), num_envs = static_cast<int>(states.shape(1));
        const lanes::Wanted wanted{reads, kinematics, forces, {}, sensors};
        const Replay replay{
            states.data(), controls.data(), steps, num_envs, signature, frame_skip, after_of(model_at(model), wanted),
            num_threads};
        return bare_loop(model_at(model), replay, stepping(physics, wanted, width));
      },
      nb::kw_only(), "model"_a, "states"_a, "controls"_a, "signature"_a, "frame_skip"_a, "kinematics"_a, "forces"_a,
      "num_threads"_a = 1, "physics"_a = "mujoco", "reads"_a = std::vector<std::string>(),
      "sensors"_a = std::vector<std::string>(), "width"_a = 0,
      "Seconds that mj_step, or a step in lanes, and what a task needs after it take on states [steps, N, …] with\n"
      "controls [steps, N, nu]. reads, sensors: what the task reads, for lanes. width: one of `lane_widths`, or 0 for\n"
      "the best.");
}
