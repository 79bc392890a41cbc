// A third party's simulator in one file: the tests build it against the installed headers, and
// use it wherever a fast, fully known, or misbehaving environment is wanted.
#include <headrace/engine/module.hpp>

#include <chrono>
#include <thread>

namespace {

struct Options {
  int length = 10;             // steps in an episode
  std::int64_t fail_on = -1;   // this action throws
  int delay_us = 0;            // environment i works for i * delay_us microseconds
  int cannot_make = -1;        // this environment cannot be made
};

// obs = [seed, episode, step, last action]
struct Shown : headrace::Spec {
  headrace::Field<double> obs{this, "obs", {4}};
  headrace::Field<std::int32_t> episode{this, "info:episode"};
  headrace::ActionField<std::int64_t> action{this};
};

// reward = last action
class Counter : public headrace::Environment {
 public:
  Counter(int env_id, const Options& options) : options_(options), delay_(env_id * options.delay_us) {
    if (env_id == options.cannot_make) throw std::runtime_error("asked not to be made");
  }

  void seed(std::uint64_t seed) override { state_ = {static_cast<double>(seed), 0, 0, 0}; }

  void reset() override { state_ = {state_[0], state_[1] + 1, 0, 0}; }

  headrace::StepResult step(const headrace::Action& action) override {
    const std::int64_t a = action.get(shown_.action);
    if (a == options_.fail_on) throw std::runtime_error("action " + std::to_string(a) + " is not for me");
    if (delay_) std::this_thread::sleep_for(std::chrono::microseconds(delay_));
    state_[2] += 1;
    state_[3] = static_cast<double>(a);
    return {static_cast<float>(a), state_[2] >= options_.length, false};
  }

  void observe(const headrace::Row& row) const override {
    row.set(shown_.obs, state_);
    row.set(shown_.episode, state_[1]);
  }

  void save(headrace::Writer& out) const override { out.value(state_); }
  void load(headrace::Reader& in) override { state_ = in.value<std::array<double, 4>>(); }

  void render(std::uint8_t* rgb) const override { std::memset(rgb, static_cast<int>(state_[2]), 4 * 6 * 3); }

 private:
  Shown shown_;
  Options options_;
  int delay_;
  std::array<double, 4> state_{};
};

}  // namespace

NB_MODULE(_counter, m) {
  using namespace nanobind::literals;
  headrace::bind_engine(m);
  m.def(
      "simulator",
      [](int length, std::int64_t fail_on, int delay_us, int cannot_make) {
        Options options{length, fail_on, delay_us, cannot_make};
        return headrace::Simulator{
            .spec = Shown(),
            .frame_height = 4,
            .frame_width = 6,
            .make = [options](int env_id) { return std::make_unique<Counter>(env_id, options); },
        };
      },
      "length"_a = 10, "fail_on"_a = -1, "delay_us"_a = 0, "cannot_make"_a = -1);
}
