// MuJoCo's step for several simulations of one model at once, one in each lane of a vector register.
//
// The library knows MuJoCo's model and data, and no pool. It reads a model once into a plan, or says by name what
// of it it cannot step; libmujoco then does. From equal data its results equal `mj_step`'s but for rounding, as the
// constraint problem has one optimum. A lane's numbers depend on its own data alone: not on the other lanes, nor
// on the width of the registers.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace headrace::lanes {

// what of a model cannot be stepped in lanes, by name: "geom 7 'table': mesh collisions"
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// what is read of mjData after a step, beside the state
struct Wanted {
  std::vector<std::string> fields;  // by MuJoCo's names
  bool kinematics = false;          // what follows from positions and velocities is that of the new state
  bool forces = false;              // cfrc_ext is computed; else it stays zero
  std::vector<std::string> varies;  // fields of the model that differ between simulations
  std::vector<std::string> sensors; // which are read of sensordata; empty: all
};

// What lanes compute with. Floats are as many again in a register, and have seven digits: states stay MuJoCo's doubles,
// but each step rounds them.
enum class Number { kDouble, kFloat };

// Steps groups of simulations; one thread at a time.
class Stepper {
 public:
  virtual ~Stepper();

  // the most simulations that one call takes
  virtual int width() const = 0;

  // whether `step` computes what is wanted of the new state's positions and velocities; else its caller does
  virtual bool kinematics() const = 0;

  // Advances each of at most `width()` data by so many steps of physics under its controls, and leaves in it the new
  // state and what is wanted. A step that meets what lanes do not compute is libmujoco's. Returns a bit for each that
  // no step can begin from: that data is as it was before, and `mj_step` says what is wrong. Where models differ (see `Wanted::varies`), `models` are those of the data.
  virtual std::uint32_t step(std::span<mjData* const> data, int steps, std::span<const mjModel* const> models = {}) = 0;
};

// Is something read of the new state that follows from all of `mj_fwdPosition` and `mj_fwdVelocity`: contacts, limits,
// actuators' lengths, energies? Else from where everything is and moves.
bool wants_all(const mjModel& model, const Wanted& wanted);

// what is read of the new state and libmujoco computes, for one simulation after the other, by name; see
// `Stepper::kinematics`
std::vector<std::string> left_to_mujoco(const mjModel& model, const Wanted& wanted);

// widths that this processor can run, the best first; empty: none
std::vector<int> widths(Number number = Number::kDouble);

// throws Unsupported; width 0: the best, and narrower registers for groups that fit them
std::unique_ptr<Stepper> make_stepper(std::shared_ptr<const mjModel> model, const Wanted& wanted,
                                      Number number = Number::kDouble, int width = 0);

}  // namespace headrace::lanes
