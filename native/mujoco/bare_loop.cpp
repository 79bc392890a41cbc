#include "bare_loop.hpp"

#include <algorithm>
#include <barrier>
#include <memory>
#include <vector>

#include "engine/together.hpp"

namespace headrace::mujoco {
namespace {

// The simulations of one thread.
class Bare {
 public:
  Bare(const mjModel& model, const Replay& replay, const MakeStepper& make_stepper)
      : model_(model), replay_(replay), stepper_(make_stepper ? make_stepper(borrowed(model)) : nullptr) {
    const int width = stepper_ ? stepper_->width() : 1;
    for (int i = 0; i < width; ++i) owned_.emplace_back(mj_makeData(&model), &mj_deleteData);
    for (const auto& data : owned_) data_.push_back(data.get());
  }

  std::size_t width() const { return data_.size(); }

  // One agent step of the environments [first, first + n); n is at most `width()`.
  void step(int step, std::size_t first, std::size_t n) {
    const auto row = static_cast<std::size_t>(mj_stateSize(&model_, replay_.signature));
    const auto nu = static_cast<std::size_t>(model_.nu);
    const auto begin = static_cast<std::size_t>(step) * static_cast<std::size_t>(replay_.num_envs) + first;
    for (std::size_t i = 0; i < n; ++i) {
      mj_setState(&model_, data_[i], replay_.states + (begin + i) * row, replay_.signature);
      mju_copy(data_[i]->ctrl, replay_.controls + (begin + i) * nu, model_.nu);
    }
    const auto left = stepper_ ? stepper_->step({data_.data(), n}, replay_.frame_skip) : ~0u;
    for (std::size_t i = 0; i < n; ++i) {
      if (left >> i & 1) {
        for (int k = 0; k < replay_.frame_skip; ++k) mj_step(&model_, data_[i]);
        compute_after(model_, *data_[i], replay_.after);
      } else if (replay_.after.kinematics && !stepper_->kinematics()) {
        update_kinematics(model_, *data_[i], replay_.after.all);
      }
    }
  }

 private:
  const mjModel& model_;
  const Replay& replay_;
  std::unique_ptr<lanes::Stepper> stepper_;
  std::vector<std::unique_ptr<mjData, decltype(&mj_deleteData)>> owned_;
  std::vector<mjData*> data_;
};

}  // namespace

double bare_loop(const mjModel& model, const Replay& replay, const MakeStepper& make_stepper) {
  check_together(replay.num_threads);
  std::vector<std::unique_ptr<Bare>> bare;
  for (int i = 0; i < replay.num_threads; ++i) bare.push_back(std::make_unique<Bare>(model, replay, make_stepper));
  std::barrier together(replay.num_threads);

  auto run = [&](int thread) {
    Bare& own = *bare[static_cast<std::size_t>(thread)];
    const auto first = replay.num_envs * thread / replay.num_threads;
    const auto last = replay.num_envs * (thread + 1) / replay.num_threads;
    const auto width = static_cast<int>(own.width());
    for (int step = 0; step < replay.steps; ++step) {
      guarded([&] {  // without the clock, as in a program in C
        for (int env = first; env < last; env += width)
          own.step(step, static_cast<std::size_t>(env), static_cast<std::size_t>(std::min(width, last - env)));
      });
      together.arrive_and_wait();
    }
  };

  return run_together(replay.num_threads, run);
}

}  // namespace headrace::mujoco
