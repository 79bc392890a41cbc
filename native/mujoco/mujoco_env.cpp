#include "mujoco_env.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace headrace::mujoco {
namespace {

constexpr int kMostStarts = 10000;

template <class T>
T& at(const Rows& rows, int env_id) {
  return *reinterpret_cast<T*>(rows.row(env_id));
}

}  // namespace

Task::Task(std::shared_ptr<Physics> physics, std::shared_ptr<Studio> studio, Memory memory)
    : physics(std::move(physics)),
      studio(std::move(studio)),
      memory(std::move(memory)),
      action(&spec, {static_cast<int>(this->memory.actions.stride / sizeof(mjtNum))}) {}

void Task::report(std::string name, std::string dtype, std::vector<int> shape, Rows newest, Rows stack, int depth) {
  AnyField field(&spec, std::move(name), std::move(dtype), std::move(shape));
  const std::size_t shown = (depth == 1 ? newest : stack).stride;
  if (shown != field.bytes())
    throw BadSpec(field.name() + " is declared with " + std::to_string(field.bytes()) + " bytes a row, and has " +
                  std::to_string(shown));
  reports.push_back({std::move(field), newest, stack, depth});
}

MujocoEnv::MujocoEnv(std::shared_ptr<const Task> task, int env_id) : task_(std::move(task)), env_id_(env_id) {
  // An environment has a state to begin from, even if the first call is not a reset.
  auto group = task_->physics->borrow();
  Lane& lane = group->lane();
  lane.enter(env_id_);
  mj_resetData(&lane.model(), &lane.data());
  lane.save(task_->memory.state.row(env_id_));
}

void MujocoEnv::seed(std::uint64_t seed) {
  at<std::uint64_t>(task_->memory.seed, env_id_) = seed;
  at<std::uint64_t>(task_->memory.drawn, env_id_) = 0;
}

void MujocoEnv::reset() {
  auto group = task_->physics->borrow();
  Lane& lane = group->lane();
  lane.enter(env_id_);
  for (const auto& r : task_->reports)  // a step's values are zero before the first step
    if (r.field.name().starts_with("info:")) std::memset(r.newest.row(env_id_), 0, r.newest.stride);
  start(lane);
  if (task_->rules.settling_steps > 0) settle(lane);
  lane.call(kObserve);
  lane.save(task_->memory.state.row(env_id_));
  at<std::int32_t>(task_->memory.warning, env_id_) = lane.warning();
  if (task_->memory.pixels.data) draw(lane, {}, Layout::planes, &at<std::uint8_t>(task_->memory.pixels, env_id_));
  report(true);
}

void MujocoEnv::start(Lane& lane) {
  int starts = 0;
  do {
    if (++starts > kMostStarts) throw std::runtime_error("none of 10,000 starts of an episode was acceptable");
    lane.reset();
    lane.call(kReset);
    lane.enter(env_id_);  // the start may have set the environment's own model values
    lane.compute_constants(env_id_);
  } while (task_->rules.may_refuse && refused(lane));
  forward(lane);  // forces between bodies stay zero until the first step, as Gymnasium has them
}

// Returns whether the task refuses a start. The task sees positions and contacts: no more is computed, for a task may
// look at a hundred starts before it takes one.
bool MujocoEnv::refused(Lane& lane) {
  guarded([&] {
    mj_fwdKinematics(&lane.model(), &lane.data());
    mj_collision(&lane.model(), &lane.data());
  });
  lane.call(kAccept);
  return !at<bool>(task_->memory.accepted, env_id_);
}

// Computes what follows from a state, if the task reads any of it.
void MujocoEnv::forward(Lane& lane) {
  if (task_->physics->reads_state_alone()) return;
  mjModel m = lane.model();  // a shallow copy: the same arrays under other options
  if (task_->rules.starts_unactuated) m.opt.disableflags |= mjDSBL_ACTUATION;
  guarded([&] { mj_forward(&m, &lane.data()); });
}

void MujocoEnv::settle(Lane& lane) {
  mjData& d = lane.data();
  guarded([&] {
    for (int i = 0; i < task_->rules.settling_steps; ++i) mj_step(&lane.model(), &d);
    d.time = 0;
  });
  forward(lane);
}

StepResult MujocoEnv::step(const Action& action) {
  Turn turn{this, action};
  Turn* const alone[] = {&turn};
  step_together(alone);
  if (turn.error) std::rethrow_exception(turn.error);
  return turn.result;
}

void MujocoEnv::step_together(std::span<Turn* const> turns) {
  const int repeats = static_cast<const MujocoEnv&>(*turns[0]->env).task_->rules.action_repeat;
  if (repeats == 1) return repeat_together(turns, true);
  std::vector<Turn*> going(turns.begin(), turns.end());
  for (int left = repeats; left > 0 && !going.empty(); --left) {
    repeat_together(going, left == 1);
    std::erase_if(going, [](const Turn* turn) { return turn->error || turn->result.terminated; });
  }
}

// Advances physics and asks the task once; the environments show what they see after the last time alone.
void MujocoEnv::repeat_together(std::span<Turn* const> turns, bool last) {
  const auto env = [&](std::size_t i) -> MujocoEnv& { return static_cast<MujocoEnv&>(*turns[i]->env); };
  const Task& task = *env(0).task_;
  auto group = task.physics->borrow();
  for (std::size_t i = 0; i < turns.size(); ++i) env(i).prepare(group->lane(i), turns[i]->action);
  const auto left = group->advance(turns.size(), task.rules.frame_skip);
  bool failed = false;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    turns[i]->attempt([&] {
      if (left >> i & 1) env(i).advance(group->lane(i));
      else if (!group->kinematics()) env(i).complete(group->lane(i));
      const float earned = turns[i]->result.reward;
      turns[i]->result = env(i).conclude(group->lane(i), last);
      turns[i]->result.reward += earned;
    });
    failed |= turns[i]->error != nullptr;
  }
  if (failed) group.discard();
}

// Loads the state and the controls of this environment.
void MujocoEnv::prepare(Lane& lane, const Action& action) {
  const Memory& memory = task_->memory;
  lane.enter(env_id_);
  lane.load(memory.state.row(env_id_));
  lane.forget_warnings();
  const std::span controls(&at<mjtNum>(memory.actions, env_id_), task_->action.size());
  action.copy(task_->action, controls);
  if (task_->rules.acts) {
    lane.call(kAct);
  } else {
    std::memcpy(lane.data().ctrl, controls.data(), sizeof(mjtNum) * static_cast<std::size_t>(lane.model().nu));
  }
}

// Makes one agent step with libmujoco.
void MujocoEnv::advance(Lane& lane) const {
  mjData& d = lane.data();
  guarded([&] {
    // Nobody sees sensors between the steps, nor those that are computed anew after the last one.
    const bool sensed_after = task_->rules.after.kinematics && !lane.senses_accelerations();
    for (int i = 1; i < task_->rules.frame_skip; ++i) mj_step(&lane.without_sensors(), &d);
    mj_step(sensed_after ? &lane.without_sensors() : &lane.model(), &d);
    compute_after(lane.model(), d, task_->rules.after);
  });
}

// Computes what a stepper leaves out.
void MujocoEnv::complete(Lane& lane) const {
  if (task_->rules.after.kinematics)
    guarded([&] { update_kinematics(lane.model(), lane.data(), task_->rules.after.all); });
}

// Lets the task judge and observe the new state.
StepResult MujocoEnv::conclude(Lane& lane, bool last) {
  const Memory& memory = task_->memory;
  const int warning = lane.warning();
  at<std::int32_t>(memory.warning, env_id_) = warning;
  if (warning == 0) lane.call(kStep);  // otherwise the last observation stays, and the episode ends
  lane.save(memory.state.row(env_id_));
  const bool over = warning != 0 || at<bool>(memory.terminated, env_id_);
  if (over || last) {
    if (warning == 0 && memory.pixels.data) draw(lane, {}, Layout::planes, &at<std::uint8_t>(memory.pixels, env_id_));
    report(false);
  }
  return {warning == 0 ? at<float>(memory.reward, env_id_) : 0, over, false};
}

void MujocoEnv::report(bool first) {
  for (const auto& r : task_->reports) {
    if (r.depth == 1) continue;
    const std::size_t bytes = r.newest.stride;
    std::byte* stack = r.stack.row(env_id_);
    const int kept = first ? 0 : r.depth - 1;
    std::memmove(stack, stack + bytes, bytes * static_cast<std::size_t>(kept));
    for (int i = kept; i < r.depth; ++i)
      std::memcpy(stack + bytes * static_cast<std::size_t>(i), r.newest.row(env_id_), bytes);
  }
}

void MujocoEnv::observe(const Row& row) const {
  for (const auto& r : task_->reports) {
    const Rows& shown = r.depth == 1 ? r.newest : r.stack;
    row.set_bytes(r.field, {shown.row(env_id_), shown.stride});
  }
}

// Visits every row that decides the future, or that will be shown again.
template <class Visit>
void MujocoEnv::each_kept(Visit visit) const {
  const Memory& m = task_->memory;
  visit(m.state.row(env_id_), m.state.stride);
  visit(m.seed.row(env_id_), sizeof(std::uint64_t));
  visit(m.drawn.row(env_id_), sizeof(std::uint64_t));
  for (const auto& [rows, bytes] : m.kept) visit(rows.row(env_id_), bytes);
  for (const auto& r : task_->reports) {
    visit(r.newest.row(env_id_), r.newest.stride);
    if (r.depth > 1) visit(r.stack.row(env_id_), r.stack.stride);
  }
}

void MujocoEnv::save(Writer& out) const {
  each_kept([&](std::byte* data, std::size_t bytes) { out.bytes(data, bytes); });
}

void MujocoEnv::load(Reader& in) {
  each_kept([&](std::byte* data, std::size_t bytes) { in.bytes(data, bytes); });
}

void MujocoEnv::render(std::uint8_t* rgb) const {
  auto group = task_->physics->borrow();
  Lane& lane = group->lane();
  lane.enter(env_id_);
  lane.load(task_->memory.state.row(env_id_));
  const Rows& arrows = task_->memory.arrows;
  const auto* first = arrows.data ? &at<Arrow>(arrows, env_id_) : nullptr;
  draw(lane, {first, arrows.stride / sizeof(Arrow)}, Layout::pixels, rgb);
}

// The picture shows the state, not the beginning of the last substep. The state is saved in its row already, so this
// may compute on in mjData.
void MujocoEnv::draw(Lane& lane, std::span<const Arrow> arrows, Layout layout, std::uint8_t* rgb) const {
  guarded([&] { mj_forward(&lane.model(), &lane.data()); });
  task_->studio->borrow()->draw(lane.model(), lane.data(), arrows, layout, rgb);
}

Simulator simulator(Task task) {
  Simulator s;
  s.spec = task.spec;
  if (task.studio) s.frame_height = task.studio->picture().height, s.frame_width = task.studio->picture().width;
  auto shared = std::make_shared<const Task>(std::move(task));
  s.make = [shared](int env_id) { return std::make_unique<MujocoEnv>(shared, env_id); };
  if (shared->physics->in_lanes()) {
    s.group = shared->physics->borrow()->width();
    s.step_together = MujocoEnv::step_together;
  }
  return s;
}

}  // namespace headrace::mujoco
