// Networks beside plain loops over doubles; and the same bits at every width of registers.
#include "../learner/learner.hpp"
#include "../learner/team.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace headrace::learner;

namespace {

// a network of one stack or two, with its memory
struct Owned {
  struct Where {
    int inputs, outputs;
    std::size_t weight, bias;
  };

  std::vector<float> parameters, gradient, mean, square, steps = {0};
  std::vector<std::vector<Where>> stacks;
  Network network;

  // first: of the inputs, those that the first stack reads; 0: all
  Owned(int inputs, const std::vector<int>& hidden, const std::vector<int>& outputs, Activation activation,
        std::uint32_t seed, int first = 0) {
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
      int width = stacks.empty() && first > 0 ? first : inputs;
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
        stack.push_back({l.inputs,
                         {{l.outputs, l.inputs % 2 == 0, &parameters[l.weight], &parameters[l.bias],
                           &gradient[l.weight], &gradient[l.bias]}}});
      if (stack.front().inputs < inputs) stack.front().columns = inputs;
      network.stacks.push_back(stack);
    }
  }

  Adam adam() {
    return {parameters.data(),
            gradient.data(),
            mean.data(),
            square.data(),
            steps.data(),
            static_cast<std::int64_t>(parameters.size()),
            0.9,
            0.999,
            1e-5};
  }

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

void same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  CHECK(a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// outputs, and the derivative of their weighted sum along a direction, by differences
void agrees_with_doubles(int inputs, const std::vector<int>& hidden, Activation activation, int rows, int first = 0) {
  Owned owned(inputs, hidden, {3, 1}, activation, 1, first);
  const auto learner = make_learner(owned.network);
  const auto x = numbers(static_cast<std::size_t>(rows * inputs), 2),
             d = numbers(static_cast<std::size_t>(rows * 4), 3);
  std::vector<float> out(static_cast<std::size_t>(rows * 4));
  learner->forward({x.data(), nullptr, inputs}, rows, out.data());
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
    for (int o = 0; o < 4; ++o)
      CHECK(std::fabs(y[static_cast<std::size_t>(o)] - out[static_cast<std::size_t>(r * 4 + o)]) <
            1e-4 * (1 + std::fabs(y[static_cast<std::size_t>(o)])));
  }
  learner->backward({x.data(), nullptr, inputs}, rows, d.data());
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

// Inputs of which few are not zero have the same outputs and gradients in a block with others, which takes all numbers.
void sparse_inputs_change_no_bits(int width) {
  constexpr int kInputs = 150, kSparse = 40, kAll = 64, kOutputs = 4;
  Owned owned(kInputs, {200, 33}, {3, 1}, Activation::kTanh, 1);
  auto x = numbers(kAll * kInputs, 2), d = numbers(kAll * kOutputs, 3);
  for (std::size_t i = 0; i < kSparse * kInputs; ++i) x[i] = i % 13 == 0 ? x[i] : 0;
  std::fill(d.begin() + kSparse * kOutputs, d.end(), 0.0f);  // the others add nothing to the gradients
  const auto learner = make_learner(owned.network, {width});
  std::vector<std::vector<float>> found;
  for (const int rows : {kSparse, kAll}) {
    std::vector<float> out(kAll * kOutputs);
    learner->forward({x.data(), nullptr, kInputs}, rows, out.data());
    out.resize(kSparse * kOutputs);
    std::fill(owned.gradient.begin(), owned.gradient.end(), 7.0f);
    learner->backward({x.data(), nullptr, kInputs}, rows, d.data());
    found.push_back(out), found.push_back(owned.gradient);
  }
  same_bits(found[0], found[2]);
  same_bits(found[1], found[3]);
}

// all of a learner's results after two epochs of two minibatches, at one width; of some inputs few are not zero
std::vector<float> learnt(int width, bool continuous, int rows = 200, int threads = 1, int hidden = 20,
                          bool sparse = false, int first = 0) {
  const int inputs = sparse || first > 0 ? 150 : 5;
  constexpr int kChoices = 3;
  Owned owned(inputs, {hidden, hidden + 13}, {kChoices, 1}, Activation::kTanh, 4, first);
  const auto learner = make_learner(owned.network, {width});
  auto x = numbers(static_cast<std::size_t>(rows * inputs), 5);
  const auto actions = numbers(static_cast<std::size_t>(rows * kChoices), 6),
             columns = numbers(static_cast<std::size_t>(4 * rows), 7);
  for (std::size_t i = 0; sparse && i < x.size() * 3 / 4; ++i) x[i] = i % 13 == 0 ? x[i] : 0;
  std::vector<std::int64_t> choices, order;
  for (int i = 0; i < rows; ++i) choices.push_back(i % kChoices), order.push_back(i * 7 % rows);
  std::vector<float> log_std(kChoices, -0.5f), log_std_gradient(kChoices);
  const ActorCritic heads{continuous, kChoices, kChoices, log_std.data(), log_std_gradient.data()};
  const Rollout rollout{
      {x.data(), nullptr, inputs}, choices.data(),           actions.data(), columns.data(), columns.data() + rows,
      columns.data() + 2 * rows,   columns.data() + 3 * rows};
  std::vector<float> results;
  for (const double value_clip : {-1.0, 0.2}) {
    const auto s = learner->epoch(heads, rollout, order.data(), 2, rows / 2,
                                  {1e-2, 0.2, 0.01, 0.5, 0.5, value_clip, true}, owned.adam(), threads);
    CHECK(std::isfinite(s.policy_loss) && s.entropy > 0 && s.gradient_norm > 0);
    for (const double each : {s.policy_loss, s.value_loss, s.entropy, s.approx_kl, s.clip_fraction, s.gradient_norm})
      results.push_back(static_cast<float>(each));
  }
  results.insert(results.end(), owned.parameters.begin(), owned.parameters.end());
  results.insert(results.end(), log_std_gradient.begin(), log_std_gradient.end());
  return results;
}

// outputs of some rows, and gradients by them, where the network is so large that threads share its rows and its weights
std::vector<float> evaluated(int rows, int threads, bool kept, Registers registers = {}) {
  constexpr int kInputs = 31;
  Owned owned(kInputs, {250, 256}, {3, 1}, Activation::kTanh, 1);
  const auto learner = make_learner(owned.network, registers);
  const auto x = numbers(static_cast<std::size_t>(rows * kInputs), 2),
             d = numbers(static_cast<std::size_t>(rows * 4), 3);
  std::vector<float> out(static_cast<std::size_t>(rows * 4));
  learner->refresh(threads);
  learner->forward({x.data(), nullptr, kInputs}, rows, out.data(), kept, threads);
  learner->backward({x.data(), nullptr, kInputs}, rows, d.data(), kept, threads);
  out.insert(out.end(), owned.gradient.begin(), owned.gradient.end());
  return out;
}

// random transitions of odd sizes
struct Moves {
  static constexpr int kRows = 300, kInputs = 5, kActions = 3;
  std::vector<float> inputs = numbers(kRows * kInputs, 1), actions = numbers(kRows * kActions, 2),
                     next = numbers(kRows * kInputs, 3);
  std::vector<float> columns = numbers(2 * kRows, 4), noise = numbers(2 * kRows * kActions, 5);
  std::vector<std::int64_t> choices;

  Moves() {
    for (float& action : actions) action = std::tanh(action);
    for (int r = 0; r < kRows; ++r) choices.push_back(r % kActions);
  }
  Transitions transitions() const {
    return {kRows,
            {inputs.data(), nullptr, kInputs},
            {next.data(), nullptr, kInputs},
            {actions.data(), kActions},
            {columns.data(), 1},
            {columns.data() + kRows, 1},
            {}};
  }
};

// all that three updates of actor, critics and temperature leave
std::vector<float> learnt_from_replay(Registers registers, bool stochastic, int threads = 1, int width = 20) {
  const Moves moves;
  constexpr int kBoth = Moves::kInputs + Moves::kActions;
  Owned actor(Moves::kInputs, {width, width + 13}, {stochastic ? 2 * Moves::kActions : Moves::kActions},
              Activation::kRelu, 1),
      critics(kBoth, {width, width + 13}, {1, 1}, Activation::kRelu, 2);
  Owned targets(kBoth, {width, width + 13}, {1, 1}, Activation::kRelu, 3),
      target_actor(Moves::kInputs, {width, width + 13}, {Moves::kActions}, Activation::kRelu, 4);
  Owned temperature(1, {}, {1}, Activation::kRelu, 5);
  ActorCriticNetworks networks{Moves::kInputs,  Moves::kActions,      actor.network,
                               critics.network, target_actor.network, targets.network,
                               actor.adam(),    critics.adam(),       temperature.adam()};
  if (stochastic) networks.target_actor.stacks.clear();
  const auto learner = make_actor_critic_learner(networks, registers);
  std::vector<float> results;
  const ActorCriticRates rates{1e-2, 2e-2, stochastic ? INFINITY : 0.5, 0.5, -3, threads};
  for (int i = 0; i < 3; ++i) {
    const auto c = learner->improve_critics(moves.transitions(), moves.noise.data(), rates);
    const auto a =
        learner->improve_actor(moves.transitions(), moves.noise.data() + Moves::kRows * Moves::kActions, rates);
    for (const double each : {c.loss, c.mean, c.gradient_norm, a.loss, a.gradient_norm, a.entropy, a.temperature})
      results.push_back(static_cast<float>(each));
    CHECK(std::isfinite(c.loss) && c.loss > 0 && (a.temperature > 0) == stochastic);
  }
  for (const Owned* each : {&actor, &critics, &temperature})
    results.insert(results.end(), each->parameters.begin(), each->parameters.end());
  CHECK(actor.steps[0] == 3 && critics.steps[0] == 3);
  return results;
}

// all that three updates of dueling action values leave
std::vector<float> learnt_values(Registers registers, int threads = 1, int width = 20) {
  const Moves moves;
  Owned q(Moves::kInputs, {width, width + 13}, {Moves::kActions + 1}, Activation::kTanh, 1),
      target(Moves::kInputs, {width, width + 13}, {Moves::kActions + 1}, Activation::kTanh, 2);
  const auto learner = make_q_learner({Moves::kActions, true, q.network, target.network, q.adam()}, registers);
  std::vector<float> results(Moves::kRows);
  for (int i = 0; i < 3; ++i) {
    const auto s =
        learner->improve(moves.transitions(), moves.choices.data(), {1e-2, 0.5, true, true, threads}, results.data());
    for (const double each : {s.loss, s.mean, s.gradient_norm}) results.push_back(static_cast<float>(each));
    CHECK(std::isfinite(s.loss) && s.loss > 0);
  }
  results.insert(results.end(), q.parameters.begin(), q.parameters.end());
  return results;
}

constexpr int kThreads[] = {2, 3, 8};

// code of sanitizers takes a hundred times as long
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

// Sizes on both sides of what is worth another thread, and of blocks; more threads than parts.
void threads_change_no_bits() {
  for (const int rows : kInstrumented ? std::vector{130} : std::vector{2, 130, 514, 1044})
    for (const bool continuous : {false, true}) {
      const bool sparse = rows % 4 == 2;
      const auto one = learnt(0, continuous, 2 * rows, 1, 100, sparse);
      for (const int threads : kThreads) same_bits(one, learnt(0, continuous, 2 * rows, threads, 100, sparse));
      if (!kInstrumented) same_bits(one, learnt(widths().back(), continuous, 2 * rows, 3, 100, sparse));
    }
  for (const int rows : kInstrumented ? std::vector{63} : std::vector{1, 63, 300, 1031}) {
    const auto one = evaluated(rows, 1, false);
    for (const int threads : kThreads)
      for (const bool kept : {false, true}) same_bits(one, evaluated(rows, threads, kept));
  }
  for (const int threads : kThreads) {
    for (const bool stochastic : {false, true})
      same_bits(learnt_from_replay({}, stochastic, 1, 100), learnt_from_replay({}, stochastic, threads, 100));
    same_bits(learnt_values({}, 1, 200), learnt_values({}, threads, 200));
  }
}

// Each part is done once; an exception of one is the caller's, after the others have ended, and the team goes on.
void each_part_is_done_once() {
  for (const int threads : {1, 2, 3, 16})
    for (const int parts : {0, 1, 2, 7, 1000}) {
      std::vector<int> done(static_cast<std::size_t>(parts));
      const auto work = [&](int part, int thread) {
        CHECK(thread >= 0 && thread < threads);
        ++done[static_cast<std::size_t>(part)];
        if (part == 5) throw std::runtime_error("the sixth");
      };
      bool thrown = false;
      try {
        Team::mine().each(threads, parts, work);
      } catch (const std::runtime_error&) {
        thrown = true;
      }
      CHECK(thrown == (parts > 5));
      if (threads > 1 && parts > 1)
        for (const int times : done) CHECK(times == 1);
    }
}

// Two threads that learn have helpers of their own, as has a process that one with helpers was forked into.
void each_has_helpers() {
  constexpr int kRows = kInstrumented ? 63 : 300;
  const auto alone = evaluated(kRows, 1, false);
  const auto check = [&] {
    for (int i = 0; i < 3; ++i) same_bits(alone, evaluated(kRows, 3, false));
  };
  std::thread other(check);
  check();
  other.join();
#if !defined(__SANITIZE_THREAD__)  // which does not follow threads of a forked process
  const pid_t child = fork();
  if (child == 0) {
    check();
    std::_Exit(0);
  }
  int status = 1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
#endif
}

// Products of bfloat16 are those of float32 where all numbers are short: of a second layer wide enough, forward and back.
void bfloat16_is_exact_for_short_numbers(int width, int below, int above, int rows) {
  constexpr int inputs = 20;
  Owned owned(inputs, {below, above}, {1}, Activation::kRelu, 1);
  const auto shorten = [](std::vector<float>& all) {
    for (float& each : all) each = std::round(each * 4) / 4;
  };
  shorten(owned.parameters);
  const auto& first = owned.stacks[0][0];  // which passes on one of the inputs to each unit
  std::fill_n(owned.parameters.begin() + static_cast<std::ptrdiff_t>(first.weight), inputs * below, 0.0f);
  for (int o = 0; o < below; ++o)
    owned.parameters[first.weight + static_cast<std::size_t>(o * inputs + o % inputs)] = 1;
  auto x = numbers(static_cast<std::size_t>(rows * inputs), 2), d = numbers(static_cast<std::size_t>(rows), 3);
  shorten(x), shorten(d);
  for (float& each : d) each = each > 0 ? 1 : -1;  // so that gradients are as short as the last weights
  std::vector<std::vector<float>> found;
  for (const bool bfloat16 : {false, true}) {
    const auto learner = make_learner(owned.network, {bfloat16 ? width : 0, bfloat16});
    std::vector<float> out(static_cast<std::size_t>(rows));
    learner->forward({x.data(), nullptr, inputs}, rows, out.data());
    std::fill(owned.gradient.begin(), owned.gradient.end(), 7.0f);
    learner->backward({x.data(), nullptr, inputs}, rows, d.data());
    found.push_back(out), found.push_back(owned.gradient);
  }
  for (int i = 0; i < 2; ++i)
    CHECK(std::memcmp(found[i].data(), found[i + 2].data(), found[i].size() * sizeof(float)) == 0);
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
  for (const int first : {1, 48, 110}) agrees_with_doubles(121, {64, 33}, Activation::kTanh, 70, first);
  for (const bool continuous : {false, true}) {
    const auto first = learnt(widths().front(), continuous);
    for (const int width : widths()) {
      const auto other = learnt(width, continuous);
      CHECK(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)) == 0);
    }
  }
  threads_change_no_bits();
  each_part_is_done_once();
  each_has_helpers();
  for (const int width : widths()) {
    sparse_inputs_change_no_bits(width);
    for (const bool sparse : {false, true})
      same_bits(learnt(0, true, 200, 1, 20, sparse, 48), learnt(width, true, 200, 3, 20, sparse, 48));
    for (const bool stochastic : {false, true})
      same_bits(learnt_from_replay({}, stochastic), learnt_from_replay({width}, stochastic));
    same_bits(learnt_values({}), learnt_values({width}));
  }
  for (const int width : widths(true)) {
    for (const int rows : {1, 33, 256, 300}) {
      bfloat16_is_exact_for_short_numbers(width, 256, 256, rows);
      bfloat16_is_exact_for_short_numbers(width, 70, 97, rows);
      bfloat16_is_exact_for_short_numbers(width, 65, 65, rows);
    }
    for (const int threads : kThreads)
      same_bits(evaluated(300, 1, false, {width, true}), evaluated(300, threads, true, {width, true}));
    for (const bool stochastic : {false, true})
      for (const int threads : kThreads)
        same_bits(learnt_from_replay({width, true}, stochastic, 1, 80),
                  learnt_from_replay({width, true}, stochastic, threads, 80));
  }
  std::puts("learner: passed");
}
