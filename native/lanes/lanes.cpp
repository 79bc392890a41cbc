#include "lanes.hpp"

#include <algorithm>
#include <utility>

#include "core.hpp"

namespace headrace::lanes {
namespace {

using Make = Core* (*)(const Plan&);

// Returns the widths that were compiled and that this processor has, the best first.
std::vector<std::pair<int, Make>> cores(Number number, bool differ = false) {
  const bool floats = number == Number::kFloat;
  std::vector<std::pair<int, Make>> found;
  const auto add = [&](int width, Make single, Make single_differing, Make twice, Make twice_differing) {
    found.emplace_back(width, floats ? (differ ? single_differing : single) : (differ ? twice_differing : twice));
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    add(floats ? 16 : 8, make_float_16, make_float_16_differing, make_double_8, make_double_8_differing);
  if (fma) add(floats ? 8 : 4, make_float_8, make_float_8_differing, make_double_4, make_double_4_differing);
  if (!fma) return found;
#endif
  add(1, make_float_1, make_float_1_differing, make_double_1, make_double_1_differing);
  return found;
}

class Owner final : public Stepper {
 public:
  // widths: the best first
  Owner(std::shared_ptr<const Plan> plan, std::vector<std::pair<int, Make>> widths)
      : plan_(std::move(plan)), widths_(std::move(widths)), cores_(widths_.size()) {}

  int width() const override { return widths_.front().first; }

  bool kinematics() const override { return plan_->kinematics; }

  std::uint32_t step(std::span<mjData* const> data, int steps, std::span<const mjModel* const> models) override {
    const int count = static_cast<int>(data.size());
    return core_for(count).step(data.data(), models.empty() ? nullptr : models.data(), count, steps);
  }

 private:
  // Returns the narrowest core that holds so many: all give the same bits, and narrower registers are faster.
  Core& core_for(int count) {
    std::size_t i = widths_.size() - 1;
    while (i > 0 && widths_[i].first < count) --i;
    if (!cores_[i]) cores_[i].reset(widths_[i].second(*plan_));
    return *cores_[i];
  }

  std::shared_ptr<const Plan> plan_;
  std::vector<std::pair<int, Make>> widths_;
  std::vector<std::unique_ptr<Core>> cores_;  // only those that were needed exist
};

}  // namespace

Stepper::~Stepper() = default;
Core::~Core() = default;

std::vector<int> widths(Number number) {
  std::vector<int> found;
  for (const auto& [width, make] : cores(number)) found.push_back(width);
  return found;
}

std::unique_ptr<Stepper> make_stepper(std::shared_ptr<const mjModel> model, const Wanted& wanted, Number number,
                                      int width) {
  const auto plan = read_plan(std::move(model), wanted);
  auto widths = cores(number, plan->own.any());
  if (width != 0) std::erase_if(widths, [&](const auto& each) { return each.first != width; });
  if (widths.empty()) throw Unsupported("this processor has no registers of that width");
  return std::make_unique<Owner>(plan, std::move(widths));
}

}  // namespace headrace::lanes
