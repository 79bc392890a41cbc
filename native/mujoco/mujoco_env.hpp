// A MuJoCo task as an environment of the engine: physics is here, and functions that Warp compiled from Python hold the
// task itself: starts, rewards, observations.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "after.hpp"
#include "engine/environment.hpp"
#include "painter.hpp"
#include "physics.hpp"

namespace headrace::mujoco {

// A report of an environment: the rows where the program writes it, and how many of the latest are shown.
struct Report {
  AnyField field;
  Rows newest;
  Rows stack;  // oldest first; unused where depth is 1
  int depth = 1;
};

// The rows of all environments; their owner keeps the memory.
struct Memory {
  Rows state;  // MuJoCo's, `Physics::state_bytes` each
  Rows actions;  // nu float64
  Rows reward, terminated;  // float32, bool: of the last step
  Rows accepted;  // bool: of the last start
  Rows warning;  // int32: MuJoCo's warning in the last step, see `Lane::warning`
  Rows seed, drawn;  // uint64: the random stream
  std::vector<std::pair<Rows, std::size_t>> kept;  // rows of the task's own state, and their bytes
  Rows pixels = {};  // uint8[3, height, width]: pictures are drawn here, if they are seen
  Rows arrows = {};  // `Arrow`s over rendered pictures, not over `pixels`
};

struct Rules {
  int frame_skip = 1;
  int action_repeat = 1;  // times that the task judges an action, whose rewards are added
  After after;
  bool acts = false;  // the program turns actions into controls; else they are the controls
  bool may_refuse = false;  // the program looks at each start, and may ask for another
  int settling_steps = 0;  // steps of physics before an episode begins
  bool starts_unactuated = false;  // the first observation knows no actuator forces
};

struct Task {
  Task(std::shared_ptr<Physics> physics, std::shared_ptr<Studio> studio, Memory memory);

  // Throws BadSpec if rows of that type and shape are not the rows to be shown.
  void report(std::string name, std::string dtype, std::vector<int> shape, Rows newest, Rows stack = {}, int depth = 1);

  std::shared_ptr<Physics> physics;
  std::shared_ptr<Studio> studio;  // null if nothing is drawn
  Memory memory;
  Rules rules;
  Spec spec;
  ActionField<mjtNum> action;
  std::vector<Report> reports;
};

class MujocoEnv final : public Environment {
 public:
  MujocoEnv(std::shared_ptr<const Task> task, int env_id);

  void seed(std::uint64_t seed) override;
  void reset() override;
  StepResult step(const Action& action) override;

  // The environments belong to one task; their number is at most the one that its physics takes.
  static void step_together(std::span<Turn* const> turns);
  void observe(const Row& row) const override;
  void save(Writer& out) const override;
  void load(Reader& in) override;
  void render(std::uint8_t* rgb) const override;

 private:
  static void repeat_together(std::span<Turn* const> turns, bool last);
  void prepare(Lane& lane, const Action& action);
  void advance(Lane& lane) const;
  void complete(Lane& lane) const;
  StepResult conclude(Lane& lane, bool last);
  void start(Lane& lane);
  bool refused(Lane& lane);
  void forward(Lane& lane);
  void settle(Lane& lane);
  void draw(Lane& lane, std::span<const Arrow> arrows, Layout layout, std::uint8_t* rgb) const;
  void report(bool first);

  template <class Visit>
  void each_kept(Visit visit) const;

  std::shared_ptr<const Task> task_;
  int env_id_;
};

Simulator simulator(Task task);

}  // namespace headrace::mujoco
