// Networks beside plain loops over doubles; and the same bits at every width of registers.
#include "../learner/learner.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"

using namespace headrace::learner;

namespace {

// a network of one stack or two, with its memory
struct Owned {
  struct Where { int inputs, outputs; std::size_t weight, bias; };

  std::vector<float> parameters, gradient, mean, square;
  std::vector<std::vector<Where>> stacks;
  Network network;

  Owned(int inputs, const std::vector<int>& hidden, const std::vector<int>& outputs, Activation activation, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.4f);
    const auto reserve = [&](int n) {
      const std::size_t begin = parameters.size();
      parameters.resize(begin + static_cast<std::size_t>((n + 15) / 16 * 16));
      for (int i = 0; i < n; ++i) parameters[begin + static_cast<std::size_t>(i)] = normal(random);
      return begin;
    };
    for (const int last : outputs) {
      std::vector<Where> layers;
      int width = inputs;
      std::vector<int> widths = hidden;
      widths.push_back(last);
      for (const int next : widths) layers.push_back({width, next, reserve(width * next), reserve(next)}), width = next;
      stacks.push_back(layers);
    }
    gradient.resize(parameters.size()), mean.resize(parameters.size()), square.resize(parameters.size());
    network = {inputs, activation, {}};
    for (const auto& layers : stacks) {
      Stack stack;
      for (const Where& l : layers)
        stack.push_back({l.inputs, {{l.outputs, l.inputs % 2 == 0, &parameters[l.weight], &parameters[l.bias], &gradient[l.weight], &gradient[l.bias]}}});
      network.stacks.push_back(stack);
    }
  }

  Adam adam() { return {parameters.data(), gradient.data(), mean.data(), square.data(), static_cast<std::int64_t>(parameters.size()), 0.9, 0.999, 1e-5}; }

  double weight(const Where& l, int i, int o) const {
    return parameters[l.weight + static_cast<std::size_t>(l.inputs % 2 == 0 ? o * l.inputs + i : i * l.outputs + o)];
  }

  // outputs of one sample, in doubles
  std::vector<double> outputs(const float* x) const {
    std::vector<double> all;
    for (const auto& layers : stacks) {
      std::vector<double> h(x, x + network.inputs);
      for (std::size_t l = 0; l < layers.size(); ++l) {
        std::vector<double> y;
        for (int o = 0; o < layers[l].outputs; ++o) {
          double sum = parameters[layers[l].bias + static_cast<std::size_t>(o)];
          for (int i = 0; i < layers[l].inputs; ++i) sum += h[static_cast<std::size_t>(i)] * weight(layers[l], i, o);
          if (l + 1 < layers.size()) sum = network.activation == Activation::kTanh ? std::tanh(sum) : std::fmax(sum, 0);
          y.push_back(sum);
        }
        h = y;
      }
      all.insert(all.end(), h.begin(), h.end());
    }
    return all;
  }
};

std::vector<float> numbers(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& each : x) each = normal(random);
  return x;
}

// outputs, and the derivative of their weighted sum along a direction, by differences
void agrees_with_doubles(int inputs, const std::vector<int>& hidden, Activation activation, int rows) {
  Owned owned(inputs, hidden, {3, 1}, activation, 1);
  const auto learner = make_learner(owned.network);
  const auto x = numbers(static_cast<std::size_t>(rows * inputs), 2), d = numbers(static_cast<std::size_t>(rows * 4), 3);
  std::vector<float> out(static_cast<std::size_t>(rows * 4));
  learner->forward(x.data(), rows, out.data());
  const auto sum = [&] {
    double total = 0;
    for (int r = 0; r < rows; ++r) {
      const auto y = owned.outputs(x.data() + r * inputs);
      for (int o = 0; o < 4; ++o) total += y[static_cast<std::size_t>(o)] * d[static_cast<std::size_t>(r * 4 + o)];
    }
    return total;
  };
  for (int r = 0; r < rows; ++r) {
    const auto y = owned.outputs(x.data() + r * inputs);
    for (int o = 0; o < 4; ++o) CHECK(std::fabs(y[static_cast<std::size_t>(o)] - out[static_cast<std::size_t>(r * 4 + o)]) < 1e-4 * (1 + std::fabs(y[static_cast<std::size_t>(o)])));
  }
  learner->backward(x.data(), rows, d.data());
  for (const auto& layers : owned.stacks)
    for (const auto& l : layers)
      for (const std::size_t i : {l.weight, l.weight + static_cast<std::size_t>(l.inputs * l.outputs - 1), l.bias}) {
        const float before = owned.parameters[i], step = 1e-2f;
        owned.parameters[i] = before + step;
        const double above = sum(), up = owned.parameters[i];
        owned.parameters[i] = before - step;
        const double slope = (above - sum()) / (up - owned.parameters[i]);
        owned.parameters[i] = before;
        const double tolerance = (activation == Activation::kRelu ? 0.3 : 2e-2) * (1 + std::fabs(slope));  // kinks
        CHECK(std::fabs(slope - owned.gradient[i]) < tolerance);
      }
}

// all of a learner's results after two epochs, at one width
std::vector<float> learnt(int width, bool continuous) {
  constexpr int kRows = 200, kInputs = 5, kChoices = 3;
  Owned owned(kInputs, {20, 33}, {kChoices, 1}, Activation::kTanh, 4);
  const auto learner = make_learner(owned.network, width);
  const auto x = numbers(kRows * kInputs, 5), actions = numbers(kRows * kChoices, 6), columns = numbers(4 * kRows, 7);
  std::vector<std::int64_t> choices, order;
  for (int i = 0; i < kRows; ++i) choices.push_back(i % kChoices), order.push_back(i * 7 % kRows);
  std::vector<float> log_std(kChoices, -0.5f), log_std_gradient(kChoices);
  const ActorCritic heads{continuous, kChoices, kChoices, log_std.data(), log_std_gradient.data()};
  const Rollout rollout{x.data(), choices.data(), actions.data(), columns.data(), columns.data() + kRows, columns.data() + 2 * kRows, columns.data() + 3 * kRows};
  std::vector<float> results;
  for (const double value_clip : {-1.0, 0.2}) {
    const auto s = learner->epoch(heads, rollout, order.data(), 2, kRows / 2, {1e-2, 0.2, 0.01, 0.5, 0.5, value_clip, true}, owned.adam(), 0);
    CHECK(std::isfinite(s.policy_loss) && s.entropy > 0 && s.gradient_norm > 0);
    for (const double each : {s.policy_loss, s.value_loss, s.entropy, s.approx_kl, s.clip_fraction, s.gradient_norm}) results.push_back(static_cast<float>(each));
  }
  results.insert(results.end(), owned.parameters.begin(), owned.parameters.end());
  return results;
}

}  // namespace

int main() {
  if (widths().empty()) return 77;  // this processor has no such registers
  for (const auto activation : {Activation::kTanh, Activation::kRelu})
    for (const int rows : {1, 63, 64, 65}) {
      agrees_with_doubles(1, {1}, activation, rows);
      agrees_with_doubles(17, {64, 64}, activation, rows);
    }
  agrees_with_doubles(1000, {7, 40, 16}, Activation::kTanh, 3);
  for (const bool continuous : {false, true}) {
    const auto first = learnt(widths().front(), continuous);
    for (const int width : widths()) {
      const auto other = learnt(width, continuous);
      CHECK(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)) == 0);
    }
  }
  std::puts("learner: passed");
}
