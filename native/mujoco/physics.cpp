#include "physics.hpp"

#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "lanes/varying.hpp"

namespace headrace::mujoco {
namespace {

// The place where an error of MuJoCo's lands, in the thread that runs a guarded piece.
struct Landing {
  std::jmp_buf place;
  char message[sizeof mjLogMessage::subject];
};
thread_local Landing* landing = nullptr;
mjfLogHandler previous_handler = nullptr;
mjfTime previous_time = nullptr;

void handle_log(const mjLogMessage* message) {
  if (!landing) return previous_handler(message);
  if (message->level != mjLOG_ERROR) return;  // mjData counts warnings, and they are read there
  std::memcpy(landing->message, message->subject, sizeof landing->message);
  std::longjmp(landing->place, 1);
}

// MuJoCo's Python package makes MuJoCo look at the clock some twenty times a step, for statistics that nobody sees
// here; light tasks spent much of their time on it.
mjtNum time_of_day() { return landing ? 0 : previous_time(); }

// No frame between setjmp and longjmp may hold an object with a destructor: this one holds none.
bool attempt(Landing& place, void (*piece)(void*), void* context) {
  if (setjmp(place.place)) return false;
  piece(context);
  return true;
}

template <class Struct>
using Offsets = std::unordered_map<std::string, std::size_t>;

const Offsets<mjData>& data_offsets() {
  static const Offsets<mjData> offsets = {
#define X(type, name, nr, nc) {#name, offsetof(mjData, name)},
      MJDATA_POINTERS
#undef X
  };
  return offsets;
}

const Offsets<mjModel>& model_offsets() {
  static const Offsets<mjModel> offsets = {
#define X(type, name, nr, nc) {#name, offsetof(mjModel, name)},
      MJMODEL_POINTERS
#undef X
  };
  return offsets;
}

// The parts of MuJoCo's state, in the order of its bits.
constexpr const char* kState[] = {"time",           "qpos",       "qvel",         "act",          "history",
                                  "qacc_warmstart", "ctrl",       "qfrc_applied", "xfrc_applied", "eq_active",
                                  "mocap_pos",      "mocap_quat", "userdata",     "plugin_state"};

bool is_state(const std::string& name) { return std::ranges::count(kState, name) > 0; }

void* pointer_at(const void* base, std::size_t offset) {
  void* pointer;
  std::memcpy(&pointer, static_cast<const std::byte*>(base) + offset, sizeof pointer);
  return pointer;
}

// A thread lends its mjData to one environment after the other, so nothing that a state row lacks may stay in it.
void check_may_share(const mjModel& model) {
  const std::string why = ", and threads share what they step: ";
  if (model.opt.enableflags & mjENBL_SLEEP)
    throw Unfit("the model lets bodies sleep, which is not part of a saved state" + why +
                "remove <flag sleep=\"enable\"/>");
  if (model.opt.enableflags & mjENBL_IPC)
    throw Unfit("the model's flexes remember their contacts, which is not part of a saved state" + why +
                "remove <flag ipc=\"enable\"/>");
  for (int i = 0; i < model.nplugin; ++i) {
    const std::string name = mjp_getPluginAtSlot(model.plugin[i])->name;
    if (!name.starts_with("mujoco."))  // MuJoCo's own plugins keep their state in a row
      throw Unfit("the model has the plugin " + name + ", which may keep a state of its own" + why + "leave it out");
  }
}

bool any_is(const std::vector<Varying>& varying, std::span<const std::string_view> names) {
  return std::ranges::any_of(varying, [&](const Varying& v) { return std::ranges::count(names, v.name) > 0; });
}

// Returns a copy of the model, of which some fields will be an environment's.
mjModel* own_copy(const mjModel& shared, const std::vector<Varying>& varying) {
  mjModel* own = mj_copyModel(nullptr, &shared);
  // Trees of bounding boxes stand in frames of inertia, and are too long for a row. Without them contacts are the same.
  constexpr std::string_view frames[] = {"body_ipos", "body_iquat"};
  if (own && any_is(varying, frames)) own->opt.disableflags |= mjDSBL_MIDPHASE;
  return own;
}

// The parts of a state row. Forces, which are long, belong to it only if the task sets them; otherwise they are always
// zero.
int signature_of(bool keeps_forces) {
  return keeps_forces ? mjSTATE_INTEGRATION : mjSTATE_INTEGRATION & ~(mjSTATE_QFRC_APPLIED | mjSTATE_XFRC_APPLIED);
}

}  // namespace

void install_callbacks() {
  static const bool once = [] {
    previous_handler = mju_setLogHandler(handle_log);
    previous_time = mjcb_time;
    if (previous_time) mjcb_time = time_of_day;
    return true;
  }();
  static_cast<void>(once);
}

void* field_of(const mjModel& model, mjData& data, const std::string& name) {
  if (name == "time") return &data.time;
  if (name == "ncon") return &data.ncon;
  if (name == "energy") return data.energy;
  if (auto found = data_offsets().find(name); found != data_offsets().end()) return pointer_at(&data, found->second);
  if (auto found = model_offsets().find(name); found != model_offsets().end()) return pointer_at(&model, found->second);
  throw std::invalid_argument("MuJoCo has no field " + name);
}

void run_guarded(void (*piece)(void*), void* context) {
  Landing place{};
  struct Leave {
    ~Leave() { landing = nullptr; }
  } leave;
  landing = &place;
  const bool whole = attempt(place, piece, context);
  if (!whole) throw std::runtime_error(std::string("MuJoCo: ") + place.message);
}

// ---- lanes ------------------------------------------------------------------------------------

Lane::Lane(const mjModel& shared, const Program& program, const std::vector<Varying>& varying, int signature,
           int keyframe)
    : shared_(shared),
      program_(program),
      varying_(varying),
      signature_(signature),
      keyframe_(keyframe),
      own_model_(varying.empty() ? nullptr : own_copy(shared, varying)),
      model_(own_model_ ? own_model_.get() : &shared),
      without_sensors_(*model_),
      senses_accelerations_(std::find(model_->sensor_needstage, model_->sensor_needstage + model_->nsensor,
                                      static_cast<int>(mjSTAGE_ACC)) != model_->sensor_needstage + model_->nsensor),
      arguments_(program.arguments) {
  guarded([this] { data_.reset(mj_makeData(model_)); });
  if (!data_ || (!varying.empty() && !own_model_)) throw std::runtime_error("MuJoCo found no memory for a simulation");
  // Plugins may read sensors, and delayed sensors are part of the state.
  if (model_->nplugin == 0 && model_->nhistory == 0) without_sensors_.opt.disableflags |= mjDSBL_SENSOR;
  for (const auto& [offset, name, skipped] : program.arrays) {
    const void* pointer = static_cast<std::byte*>(field_of(*model_, *data_, name)) + skipped;
    std::memcpy(&arguments_[offset], &pointer, sizeof pointer);
  }
  for (const auto& field : varying) varying_fields_.push_back(field_of(*model_, *data_, field.name));
  parts_ = parts();
  reset_wholly();
  if (varying.empty() && model_->nplugin == 0) {
    const auto* buffer = static_cast<const std::byte*>(data_->buffer);
    initial_.assign(buffer, buffer + data_->nbuffer);
  }
}

void Lane::enter(int env_id) {
  const std::int32_t id = env_id;
  std::memcpy(&arguments_[program_.env_id], &id, sizeof id);
  for (std::size_t i = 0; i < varying_.size(); ++i)
    std::memcpy(varying_fields_[i], varying_[i].rows.row(env_id), varying_[i].bytes);
}

void Lane::compute_constants(int env_id) {
  if (!any_is(varying_, lanes::kCauses)) return;
  guarded([this] {
    if (!scratch_) scratch_.reset(mj_makeData(model_));
    if (scratch_) mj_setConst(own_model_.get(), scratch_.get());
  });
  if (!scratch_) throw std::runtime_error("MuJoCo found no memory for a simulation");
  for (std::size_t i = 0; i < varying_.size(); ++i)
    std::memcpy(varying_[i].rows.row(env_id), varying_fields_[i], varying_[i].bytes);
}

// The places in mjData of the parts of a state row, in its order; none if a part is not simply copied.
std::vector<Lane::Part> Lane::parts() const {
  std::vector<Part> parts;
  for (int bit = 0; bit < mjNSTATE; ++bit) {
    const int kind = 1 << bit;
    const auto bytes = signature_ & kind ? static_cast<std::size_t>(mj_stateSize(model_, kind)) * sizeof(mjtNum) : 0;
    if (bytes == 0) continue;
    if (kind == mjSTATE_EQ_ACTIVE || bit >= static_cast<int>(std::size(kState))) return {};
    parts.push_back({static_cast<std::byte*>(field_of(*model_, *data_, kState[bit])), bytes});
  }
  return parts;
}

void Lane::load(const std::byte* state) {
  for (const auto& [field, bytes] : parts_) std::memcpy(field, state, bytes), state += bytes;
  if (parts_.empty()) mj_setState(model_, data_.get(), reinterpret_cast<const mjtNum*>(state), signature_);
}

// mj_resetData clears 160 KB of statistics, which takes longer than a light robot's steps in lanes.
void Lane::reset() {
  mjData& d = *data_;
  if (initial_.empty()) return reset_wholly();
  std::memcpy(d.buffer, initial_.data(), initial_.size());
  d.ncon = d.nefc = 0;
  d.time = d.energy[0] = d.energy[1] = 0;
  d.flg_energypos = d.flg_energyvel = d.flg_subtreevel = d.flg_rnepost = false;
  forget_warnings();
}

void Lane::reset_wholly() {
  mj_resetData(model_, data_.get());
  mju_copy(data_->qpos, shared_.qpos0, shared_.nq);
  if (keyframe_ >= 0) mj_resetDataKeyframe(model_, data_.get(), keyframe_);
  data_->time = 0;
}

void Lane::save(std::byte* state) const {
  for (const auto& [field, bytes] : parts_) std::memcpy(state, field, bytes), state += bytes;
  if (parts_.empty()) mj_getState(model_, data_.get(), reinterpret_cast<mjtNum*>(state), signature_);
}

void Lane::call(Command command) {
  const std::int32_t number = command;
  std::memcpy(&arguments_[program_.command], &number, sizeof number);
  program_.function(program_.bounds.data(), arguments_.data());
}

int Lane::warning() const {
  for (int kind = 0; kind < mjNWARNING; ++kind)
    if (data_->warning[kind].number > 0) return kind + 1;
  return 0;
}

void Lane::forget_warnings() {
  for (auto& warning : data_->warning) warning.number = 0;
}

// ---- groups -----------------------------------------------------------------------------------

Lane& Group::lane(std::size_t i) {
  while (lanes_.size() <= i) {
    lanes_.push_back(physics_.make_lane());
    data_.push_back(&lanes_.back()->data());
    models_.push_back(&lanes_.back()->model());
  }
  return *lanes_[i];
}

int Group::width() { return physics_.in_lanes() ? stepper().width() : 1; }

std::uint32_t Group::advance(std::size_t n, int steps) {
  std::uint32_t left = ~0u;
  if (!physics_.in_lanes()) return left;
  auto& stepper = this->stepper();
  guarded([&] { left = stepper.step({data_.data(), n}, steps, {models_.data(), n}); });
  return left;
}

lanes::Stepper& Group::stepper() {
  if (!stepper_) stepper_ = physics_.make_stepper();
  return *stepper_;
}

// ---- physics ----------------------------------------------------------------------------------

Physics::Physics(const mjModel& model, Program program, std::vector<Varying> varying, bool keeps_forces,
                 MakeStepper make_stepper, int keyframe)
    : model_(mj_copyModel(nullptr, &model), [](const mjModel* m) { mj_deleteModel(const_cast<mjModel*>(m)); }),
      program_(std::move(program)),
      varying_(std::move(varying)),
      signature_(signature_of(keeps_forces)),
      make_stepper_(std::move(make_stepper)),
      keyframe_(keyframe),
      reads_state_alone_(std::ranges::all_of(program_.arrays, [](const auto& array) {
        return is_state(array.field) || model_offsets().contains(array.field);
      })) {
  if (!model_) throw std::runtime_error("MuJoCo found no memory for a model");
  check_may_share(model);
}

std::vector<std::string> Physics::reads() const {
  std::vector<std::string> names;
  for (const auto& array : program_.arrays) names.push_back(array.field);
  return names;
}

bool Physics::varies(const std::string& name) const {
  return std::ranges::any_of(varying_, [&](const Varying& field) { return field.name == name; });
}

}  // namespace headrace::mujoco
