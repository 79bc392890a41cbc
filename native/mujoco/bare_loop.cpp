#include "bare_loop.hpp"

#include <barrier>
#include <memory>
#include <vector>

#include "engine/together.hpp"
#include "physics.hpp"

namespace headrace::mujoco {

double bare_loop(const mjModel& model, const Replay& replay) {
  const auto row = static_cast<std::size_t>(mj_stateSize(&model, replay.signature));
  const auto n = static_cast<std::size_t>(replay.num_envs);
  const auto nu = static_cast<std::size_t>(model.nu);
  check_together(replay.num_threads);
  std::vector<std::unique_ptr<mjData, decltype(&mj_deleteData)>> data;
  for (int i = 0; i < replay.num_threads; ++i) data.emplace_back(mj_makeData(&model), &mj_deleteData);
  std::barrier together(replay.num_threads);

  auto run = [&](int thread) {
    mjData* d = data[static_cast<std::size_t>(thread)].get();
    const auto threads = static_cast<std::size_t>(replay.num_threads);
    const auto first = n * static_cast<std::size_t>(thread) / threads, last = n * static_cast<std::size_t>(thread + 1) / threads;
    for (int step = 0; step < replay.steps; ++step) {
      guarded([&] {  // without the clock, as in a program in C
        for (auto env = first; env < last; ++env) {
          const auto at = static_cast<std::size_t>(step) * n + env;
          mj_setState(&model, d, replay.states + at * row, replay.signature);
          mju_copy(d->ctrl, replay.controls + at * nu, static_cast<int>(nu));
          for (int i = 0; i < replay.frame_skip; ++i) mj_step(&model, d);
          compute_after(model, *d, replay.after);
        }
      });
      together.arrive_and_wait();
    }
  };

  return run_together(replay.num_threads, run);
}

}  // namespace headrace::mujoco
