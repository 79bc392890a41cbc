// MuJoCo under one model that all environments of a pool share, with as many simulations as threads step at once: one
// for each thread, or a group that the lanes of vector registers step together.
//
// An environment is a compact row of numbers (MuJoCo's own idea of a simulation's state); a
// thread lends it an mjData for the time of a step. So memory and cache misses do not grow with
// the number of environments, and results do not depend on who lends what: `mj_setState` decides
// everything that `mj_step` reads.
#pragma once

#include <mujoco/mujoco.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lanes/lanes.hpp"
#include "stock.hpp"

namespace headrace::mujoco {

// Pools cannot have this model; the message says why, and what to do about it.
struct Unfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// N rows, one for each environment.
struct Rows {
  std::byte* data = nullptr;
  std::size_t stride = 0;  // bytes

  std::byte* row(int env_id) const { return data + static_cast<std::size_t>(env_id) * stride; }
};

// A task's functions, compiled for this CPU by Warp: a kernel of one thread. Its arguments are a
// block of bytes; each lane has a copy, in which the arrays of MuJoCo's fields are its mjData's.
struct Program {
  using Function = void (*)(const void* bounds, void* arguments);

  Function function = nullptr;
  std::vector<std::byte> bounds, arguments;
  std::size_t env_id = 0, command = 0;                       // offsets into the arguments: int32
  struct Array {
    std::size_t offset;  // of its address in the arguments
    std::string field;  // MuJoCo's name
    std::size_t skipped = 0;  // bytes of the field before its first number
  };
  std::vector<Array> arrays;
};

// The reasons to call a program, in the order of program.py.
enum Command : std::int32_t { kReset, kAccept, kAct, kStep, kObserve };

// A model's field whose values differ between environments.
struct Varying {
  std::string name;
  Rows rows;
  std::size_t bytes = 0;
};

// Makes a stepper for several simulations of a model at once; if it is empty, libmujoco steps each.
using MakeStepper = std::function<std::unique_ptr<lanes::Stepper>(std::shared_ptr<const mjModel>)>;

// A model that its owner keeps.
inline std::shared_ptr<const mjModel> borrowed(const mjModel& model) { return {std::shared_ptr<void>(), &model}; }

// Returns the address of a field of mjData or mjModel, by MuJoCo's name; throws std::invalid_argument.
void* field_of(const mjModel& model, mjData& data, const std::string& name);

// Runs a piece of MuJoCo: its errors become std::runtime_error, its warnings stay in mjData. An error jumps out of the
// piece by longjmp and runs no destructor, so the piece and what it calls hold only trivially destructible objects.
void run_guarded(void (*piece)(void*), void* context);

template <class Piece>
void guarded(Piece piece) {
  run_guarded([](void* p) { (*static_cast<Piece*>(p))(); }, &piece);
}

// mjData and a program's arguments, for the environment that is stepped now.
class Lane {
 public:
  Lane(const mjModel& shared, const Program& program, const std::vector<Varying>& varying, int signature,
       int keyframe = -1);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const mjModel& model() const { return *model_; }
  const mjModel& without_sensors() const { return without_sensors_; }  // only if nothing else depends on sensors
  bool senses_accelerations() const { return senses_accelerations_; }
  mjData& data() { return *data_; }

  // Makes this the simulation of an environment: its model's own values, and its state.
  void enter(int env_id);
  void load(const std::byte* state);

  // After an environment has set its model's own values: computes those that follow from them, as mj_setConst does, and
  // keeps them in its rows.
  void compute_constants(int env_id);

  // Resets as mj_resetData does to the state of the model that all environments share, or as mj_resetDataKeyframe; at
  // time 0.
  void reset();
  void save(std::byte* state) const;

  void call(Command command);

  // Returns the first kind of warning since `forget_warnings`, counted from 1; 0 for none.
  int warning() const;
  void forget_warnings();

 private:
  struct FreeModel {
    void operator()(mjModel* m) const { mj_deleteModel(m); }
  };
  struct Part {
    std::byte* field;
    std::size_t bytes;
  };
  std::vector<Part> parts() const;
  void reset_wholly();

  struct FreeData {
    void operator()(mjData* d) const { mj_deleteData(d); }
  };

  const mjModel& shared_;
  const Program& program_;
  const std::vector<Varying>& varying_;
  int signature_, keyframe_;
  std::unique_ptr<mjModel, FreeModel> own_model_;  // if environments' models differ
  const mjModel* model_;
  mjModel without_sensors_;                        // the same arrays under other options
  std::unique_ptr<mjData, FreeData> data_, scratch_;  // the latter is mj_setConst's, if it is needed
  bool senses_accelerations_;                      // some sensors follow from accelerations and forces
  std::vector<Part> parts_;                        // the parts of a state row
  std::vector<std::byte> initial_;  // mjData's buffer after mj_resetData, if that is always the same
  std::vector<void*> varying_fields_;  // their places in this lane's model
  std::vector<std::byte> arguments_;
};

class Physics;

// A thread borrows a group to step environments together: a lane for each, and the stepper. Both are made when they are
// first needed.
class Group {
 public:
  explicit Group(const Physics& physics) : physics_(physics) {}

  Lane& lane(std::size_t i = 0);

  // The most environments of a group.
  int width();

  // Returns whether `advance` computes what the task wants of the new state's positions and velocities.
  bool kinematics() { return stepper().kinematics(); }

  // Advances the first n lanes by so many steps of physics. Returns a bit for each lane that libmujoco must advance:
  // that lane is unchanged.
  std::uint32_t advance(std::size_t n, int steps);

 private:
  lanes::Stepper& stepper();

  const Physics& physics_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<mjData*> data_;  // the lanes' data
  std::vector<const mjModel*> models_;
  std::unique_ptr<lanes::Stepper> stepper_;
};

// The groups of a pool.
class Physics {
 public:
  Physics(const mjModel& model, Program program, std::vector<Varying> varying, bool keeps_forces,
          MakeStepper make_stepper = {}, int keyframe = -1);

  Stock<Group>::Loan borrow() {
    return groups_.borrow([this] { return std::make_unique<Group>(*this); });
  }

  // Returns whether groups are stepped together.
  bool in_lanes() const { return static_cast<bool>(make_stepper_); }
  std::unique_ptr<lanes::Stepper> make_stepper() const { return make_stepper_(model_); }
  std::unique_ptr<Lane> make_lane() const {
    return std::make_unique<Lane>(*model_, program_, varying_, signature_, keyframe_);
  }

  std::shared_ptr<const mjModel> model() const { return model_; }
  bool varies(const std::string& name) const;

  // The fields of mjData and mjModel that the program reads, without those that vary.
  std::vector<std::string> reads() const;

  // Returns whether the program reads nothing of mjData but the state itself.
  bool reads_state_alone() const { return reads_state_alone_; }
  int signature() const { return signature_; }
  std::size_t state_bytes() const {
    return static_cast<std::size_t>(mj_stateSize(model_.get(), signature_)) * sizeof(mjtNum);
  }

 private:
  std::shared_ptr<const mjModel> model_;
  Program program_;
  std::vector<Varying> varying_;
  int signature_;
  MakeStepper make_stepper_;
  int keyframe_;  // from which episodes start; -1 for none
  bool reads_state_alone_;
  Stock<Group> groups_;
};

// Returns whether this is the library for which the structs were compiled.
inline bool version_matches() { return mj_version() == mjVERSION_HEADER; }

// Sends MuJoCo's messages inside `guarded` to us, and stops its statistics of time there; once for the process.
void install_callbacks();

}  // namespace headrace::mujoco
