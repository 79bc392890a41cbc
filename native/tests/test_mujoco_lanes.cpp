// Environments that are stepped together have the same results as alone, by any stepper.
#include <limits>

#include "../mujoco/bare_loop.hpp"
#include "mujoco_pool.hpp"

namespace {

// A record of a stepper's work.
struct Told {
  std::atomic<int> stepped{0}, refused{0}, largest{0};
};

enum class Refuses { none, some, all, unsound };

// Steps by mj_step, and cannot step some environments.
class Double : public lanes::Stepper {
 public:
  Double(std::shared_ptr<const mjModel> model, int width, Refuses refuses, Told& told)
      : model_(std::move(model)), width_(width), refuses_(refuses), told_(told) {}

  int width() const override { return width_; }
  bool kinematics() const override { return false; }

  std::uint32_t step(std::span<mjData* const> data, int steps, std::span<const mjModel* const> models) override {
    CHECK(models.size() == data.size() || models.empty());
    CHECK(!data.empty() && data.size() <= static_cast<std::size_t>(width_) && steps == kFrameSkip);
    told_.largest = std::max(told_.largest.load(), static_cast<int>(data.size()));
    std::uint32_t left = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (refuses(*data[i])) {
        left |= 1u << i;
        ++told_.refused;
        continue;
      }
      for (int k = 0; k < steps; ++k) mj_step(model_.get(), data[i]);
      ++told_.stepped;
    }
    return left;
  }

 private:
  bool refuses(const mjData& d) {
    if (refuses_ == Refuses::some) return ++asked_ % 3 == 0;
    if (refuses_ == Refuses::unsound) return !std::isfinite(d.ctrl[0]) || std::abs(d.qvel[0]) > 1e10;
    return refuses_ == Refuses::all;
  }

  std::shared_ptr<const mjModel> model_;
  int width_;
  Refuses refuses_;
  Told& told_;
  int asked_ = 0;
};

MakeStepper doubles(int width, Refuses refuses, Told& told) {
  return [=, &told](auto model) { return std::make_unique<Double>(std::move(model), width, refuses, told); };
}

template <class T>
bool same(const std::vector<T>& one, const std::vector<T>& other) {
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

bool same(const Pool& one, const Pool& other) {
  return same(one.obs, other.obs) && same(one.cost, other.cost) && same(one.reward, other.reward) &&
         one.terminated == other.terminated && one.truncated == other.truncated && one.elapsed == other.elapsed &&
         one.warning == other.warning && one.table->state == other.table->state;
}

void act(Pool& pool, int step) {
  for (int env = 0; env < kN; ++env) pool.actions[static_cast<std::size_t>(env)] = action_of(env, step);
}

void groups_equal_mujoco() {
  const Model model = model_of(kBoxes);
  for (auto refuses : {Refuses::none, Refuses::some, Refuses::all})
    for (auto [width, threads] : {std::pair{1, 1}, {4, 1}, {5, 3}, {32, 2}}) {
      Told told;
      Pool pool(*model, kN, threads, 0, doubles(width, refuses, told)), other(*model, kN, 1);
      pool.reset(), other.reset();
      for (int step = 0; step < kSteps; ++step) {
        act(pool, step), act(other, step);
        pool.step(), other.step();
        CHECK(same(pool, other));
      }
      CHECK(told.largest == std::min(width, kN));
      CHECK((told.stepped > 0) == (refuses != Refuses::all) && (told.refused > 0) == (refuses != Refuses::none));
    }
}

// A state that a stepper cannot step ends the episode as ever.
void divergence_ends_the_episode() {
  const Model model = model_of(kBoxes);
  Told told;
  Pool pool(*model, kN, 2, 0, doubles(8, Refuses::unsound, told)), other(*model, kN, 1);
  for (Pool* each : {&pool, &other}) {
    each->reset(), each->step();
    each->actions[4] = std::numeric_limits<double>::quiet_NaN();
    auto* state = reinterpret_cast<double*>(each->table->state.data() + 9 * each->physics->state_bytes());
    state[1 + model->nq] = 1e200;  // a velocity
    each->step();
    CHECK(each->warning[4] == 1 + mjWARN_BADCTRL && each->warning[9] == 1 + mjWARN_BADQVEL);
    CHECK(each->terminated[4] && each->terminated[9] && !each->terminated[5]);
  }
  CHECK(same(pool, other) && told.refused == 2);
  for (int step = 0; step < 5; ++step) {
    act(pool, step), act(other, step);
    pool.step(), other.step();
    CHECK(same(pool, other));
  }
}

// The environments of a group whose stepper fails.
void a_stepper_that_throws_fails_its_group() {
  const Model model = model_of(kBoxes);
  static std::atomic<int> made{0};
  struct Broken : lanes::Stepper {
    int number = made++;
    int width() const override { return 4; }
    bool kinematics() const override { return false; }
    std::uint32_t step(std::span<mjData* const> data, int, std::span<const mjModel* const>) override {
      if (number == 0) throw std::runtime_error("no");
      return (1u << data.size()) - 1;
    }
  };
  Pool pool(*model, kN, 1, 0, [](auto) { return std::make_unique<Broken>(); });
  pool.reset();
  std::string said;
  try {
    pool.step();
  } catch (const Failure& failure) {
    said = failure.what();
  }
  CHECK(said == "no" && made == 2);  // it is not used again
  CHECK(std::ranges::count(pool.elapsed, 1) == kN - 4);
  pool.reset(), pool.step();
  CHECK(std::ranges::count(pool.elapsed, 1) == kN);
}

void states_pass_between_both() {
  const Model model = model_of(kBoxes);
  Told told;
  Pool pool(*model, kN, 2, 0, doubles(8, Refuses::some, told)), other(*model, kN, 1);
  pool.reset(), other.reset();
  for (int step = 0; step < 10; ++step) act(pool, step), pool.step();
  std::vector<std::byte> blob;
  for (auto [from, to] : {std::pair(&pool, &other), {&other, &pool}}) {
    for (int env = 0; env < kN; ++env) {
      blob.clear();
      from->engine->save(env, blob);
      const Engine::Bytes state(blob);
      to->engine->load({&env, 1}, {&state, 1});
    }
    for (int step = 0; step < 10; ++step) {
      act(pool, step), act(other, step);
      pool.step(), other.step();
      CHECK(same(pool, other));
    }
  }
}

void a_bare_loop_makes_every_step() {
  const Model model = model_of(kBoxes);
  Pool pool(*model, kN, 1);
  pool.reset();
  constexpr int steps = 3, threads = 2;
  const auto row = pool.table->state.size() / sizeof(double);
  std::vector<double> states(steps * row), controls(steps * kN, 0.5);
  for (std::size_t step = 0; step < steps; ++step)
    std::memcpy(&states[step * row], pool.table->state.data(), row * sizeof(double));
  const Replay replay{states.data(), controls.data(), steps, kN, pool.physics->signature(), kFrameSkip, {}, threads};
  Told told;
  CHECK(bare_loop(*model, replay) > 0);
  CHECK(bare_loop(*model, replay, doubles(4, Refuses::some, told)) > 0);
  CHECK(told.stepped + told.refused == steps * kN && told.largest == 4 && told.refused > 0);
}

}  // namespace

int main() {
  install_callbacks();
  groups_equal_mujoco();
  divergence_ends_the_episode();
  a_stepper_that_throws_fails_its_group();
  states_pass_between_both();
  a_bare_loop_makes_every_step();
  std::puts("test_mujoco_lanes: all passed");
}
