#include "lanes.hpp"

#include <algorithm>
#include <utility>

#include "core.hpp"

namespace headrace::lanes {
namespace {

using Make = Core* (*)(const Plan&);

// the widths that were compiled, and whether this processor has them; the best first
std::vector<std::pair<int, Make>> cores() {
  std::vector<std::pair<int, Make>> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.emplace_back(8, make_core_8);
  if (fma) found.emplace_back(4, make_core_4), found.emplace_back(1, make_core_1);
#else
  found.emplace_back(1, make_core_1);
#endif
  return found;
}

class Owner final : public Stepper {
 public:
  Owner(std::shared_ptr<const Plan> plan, Make make) : plan_(std::move(plan)), core_(make(*plan_)) {}

  int width() const override { return core_->width(); }

  bool kinematics() const override { return core_->kinematics(); }

  std::uint32_t step(std::span<mjData* const> data, int steps, std::span<const mjModel* const> models) override {
    return core_->step(data.data(), models.empty() ? nullptr : models.data(), static_cast<int>(data.size()), steps);
  }

 private:
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Core> core_;
};

}  // namespace

Stepper::~Stepper() = default;
Core::~Core() = default;

std::vector<int> widths() {
  std::vector<int> found;
  for (const auto& [width, make] : cores()) found.push_back(width);
  return found;
}

std::unique_ptr<Stepper> make_stepper(std::shared_ptr<const mjModel> model, const Wanted& wanted, int width) {
  const auto all = cores();
  const auto core = width == 0 ? all.begin() : std::ranges::find(all, width, &std::pair<int, Make>::first);
  if (core == all.end()) throw Unsupported("this processor has no registers of that width");
  return std::make_unique<Owner>(read_plan(std::move(model), wanted), core->second);
}

}  // namespace headrace::lanes
