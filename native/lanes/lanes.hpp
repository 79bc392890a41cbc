// MuJoCo's step for several simulations of one model at once, one in each lane of a vector register.
//
// The library knows MuJoCo's model and data, and no pool. It reads a model once into a plan, or names the part of it
// that it cannot step; then libmujoco steps the model. From equal data its results equal those of `mj_step` but for
// rounding, as the constraint problem has one optimum. A lane's numbers depend on its own data alone: not on the other
// lanes, nor on the width of the registers.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace headrace::lanes {

// A part of a model cannot be stepped in lanes; the message names it: "geom 7 'table': mesh collisions".
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The values that are read of mjData after a step, beside the state.
struct Wanted {
  std::vector<std::string> fields;  // by MuJoCo's names
  bool kinematics = false;          // positions, velocities and their consequences are the new state's
  bool forces = false;              // cfrc_ext is computed; else it stays zero
  std::vector<std::string> varies;  // fields of the model that differ between simulations
  std::vector<std::string> sensors; // the sensors that are read of sensordata; empty: all
};

// The numbers with which lanes compute. A register holds twice as many floats as doubles. Floats have seven digits:
// states stay MuJoCo's doubles, but each step rounds them.
enum class Number { kDouble, kFloat };

// Steps groups of simulations; one thread at a time calls it.
class Stepper {
 public:
  virtual ~Stepper();

  // The most simulations that one call takes.
  virtual int width() const = 0;

  // Returns whether `step` computes what is wanted of the new state's positions and velocities; otherwise its caller
  // must.
  virtual bool kinematics() const = 0;

  // Advances each of at most `width()` data by so many steps of physics under its controls, and leaves in it the new
  // state and the wanted values. If a step meets something that lanes do not compute, libmujoco makes it. Returns a bit
  // for each data from which no step can begin: that data is unchanged, and `mj_step` says what is wrong. If models
  // differ (see `Wanted::varies`), `models` are those of the data.
  virtual std::uint32_t step(std::span<mjData* const> data, int steps, std::span<const mjModel* const> models = {}) = 0;
};

// Returns whether a value is read of the new state that follows from all of `mj_fwdPosition` and `mj_fwdVelocity`:
// contacts, limits, actuators' lengths, energies. Otherwise positions and velocities of bodies are enough.
bool wants_all(const mjModel& model, const Wanted& wanted);

// Returns the names of the values that are read of the new state and that libmujoco computes, for one simulation after
// the other; see `Stepper::kinematics`.
std::vector<std::string> left_to_mujoco(const mjModel& model, const Wanted& wanted);

// Returns the widths that this processor can run, the best first; empty: none.
std::vector<int> widths(Number number = Number::kDouble);

// Makes a stepper, or throws Unsupported. Width 0 means the best, with narrower registers for groups that fit them.
std::unique_ptr<Stepper> make_stepper(std::shared_ptr<const mjModel> model, const Wanted& wanted,
                                      Number number = Number::kDouble, int width = 0);

}  // namespace headrace::lanes
