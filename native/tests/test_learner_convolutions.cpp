// Convolutions beside plain loops over doubles: exactly where all numbers are short; the same bits at every width.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "../learner/learner.hpp"
#include "check.hpp"

using namespace headrace::learner;

// code of sanitizers takes a hundred times as long
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

namespace {

using Doubles = std::vector<double>;
using Pictures = std::vector<std::uint8_t>;

struct Shape {
  int channels, height, width;
  std::vector<std::array<int, 3>> filters;  // outputs, side, stride
  std::vector<int> dense;                   // outputs of the layers behind
  bool standardised = false, normed = false;

  std::size_t pixels() const { return static_cast<std::size_t>(channels * height * width); }
};

std::size_t at(int n) { return static_cast<std::size_t>(n); }

// whether a number is one of bfloat16
bool is_short(double x) {
  int exponent;
  const double mantissa = std::frexp(x, &exponent) * 256;
  return mantissa == std::floor(mantissa);
}

// a trunk and layers behind it, with their memory
struct Owned {
  struct Dense {
    int inputs, outputs;
    bool output_first;
    std::size_t weight, bias;
  };
  struct Normed {
    std::size_t gain, shift;
    int channels;
  };

  const Shape shape;
  std::mt19937 random;
  std::vector<float> parameters, gradient, mean, square, steps = {0}, means, scales;
  std::vector<std::size_t> sizes;  // begins and lengths of the parameters, in turn
  std::vector<std::size_t> weights, biases;
  std::vector<Dense> dense;
  std::vector<Normed> norms;  // of all layers but the last, or none
  Network network;

  // brief: all numbers are so short that no sum is rounded
  Owned(const Shape& given, bool brief, std::uint32_t seed) : shape(given), random(seed) {
    int c = shape.channels, h = shape.height, w = shape.width;
    std::vector<Filters> filters;
    for (const auto& [outputs, side, stride] : shape.filters) {
      filters.push_back({c, h, w, outputs, side, stride, nullptr, nullptr, nullptr, nullptr});
      if (filters.size() == 1) filters[0].factor = brief ? 0.5f : 1 / 255.0f;
      weights.push_back(reserve(outputs * side * side * c, side * side * c, brief));
      biases.push_back(reserve(outputs, 1, brief));
      if (shape.normed) norms.push_back({reserve(outputs, 1, false), reserve(outputs, 1, false), outputs});
      c = outputs, h = (h - side) / stride + 1, w = (w - side) / stride + 1;
    }
    network = {c * h * w, Activation::kRelu, {{}}};
    int inputs = c * h * w;
    for (const int outputs : shape.dense) {
      const std::size_t weight = reserve(inputs * outputs, inputs, brief);
      dense.push_back({inputs, outputs, outputs % 2 == 1, weight, reserve(outputs, 1, brief)}), inputs = outputs;
      if (shape.normed && dense.size() < shape.dense.size())
        norms.push_back({reserve(outputs, 1, false), reserve(outputs, 1, false), outputs});
    }
    gradient.resize(parameters.size()), mean.resize(parameters.size()), square.resize(parameters.size());
    for (std::size_t l = 0; l < filters.size(); ++l) {
      filters[l].weight = &parameters[weights[l]], filters[l].bias = &parameters[biases[l]];
      filters[l].weight_gradient = &gradient[weights[l]], filters[l].bias_gradient = &gradient[biases[l]];
    }
    for (std::size_t l = 0; shape.normed && l < filters.size(); ++l) filters[l].norm = norm(l);
    network.trunk.convolutions = filters;
    for (const Dense& l : dense) {
      network.stacks[0].push_back({l.inputs,
                                   {{l.outputs, l.output_first, &parameters[l.weight], &parameters[l.bias],
                                     &gradient[l.weight], &gradient[l.bias]}}});
      const std::size_t number = filters.size() + network.stacks[0].size() - 1;
      if (number < norms.size()) network.stacks[0].back().norm = norm(number);
    }
    if (!shape.standardised) return;
    for (std::size_t i = 0; i < shape.pixels(); ++i) {
      means.push_back(brief ? static_cast<float>(random() % 3) : static_cast<float>(random() % 1000) * 0.2f);
      const auto some = static_cast<float>(random() % 70);
      scales.push_back(brief ? std::exp2(std::fmod(some, 3.0f) - 1) : 1 / (20 + some));
    }
    network.trunk.mean = means.data(), network.trunk.scale = scales.data();
    if (!brief) network.trunk.convolutions[0].factor = 1;
  }

  Norm norm(std::size_t l) {
    const auto [gain, shift, channels] = norms[l];
    return {&parameters[gain], &parameters[shift], &gradient[gain], &gradient[shift], 1e-5f};
  }

  std::size_t reserve(int n, int inputs, bool brief) {
    std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(inputs)));
    const std::size_t begin = parameters.size();
    parameters.resize(begin + at((n + 15) / 16 * 16));
    sizes.push_back(begin), sizes.push_back(at(n));
    for (std::size_t i = 0; i < at(n); ++i)
      if (!brief) parameters[begin + i] = inputs == 1 ? 0.3f * normal(random) : normal(random);
      else if (random() % static_cast<unsigned>(inputs) < 3) parameters[begin + i] = random() % 2 == 0 ? 1 : -1;
    return begin;
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

  // so many pictures, which end where their memory ends
  Pictures pictures(int rows, bool brief) {
    Pictures all(at(rows) * shape.pixels());
    for (auto& each : all) each = static_cast<std::uint8_t>(brief ? random() % 4 : random());
    all.shrink_to_fit();
    return all;
  }
};

// a network's outputs and gradients, by plain loops over doubles
struct Plain {
  const Owned& owned;
  Doubles outputs, gradient;
  bool brief = true;  // whether all factors of products are short

  Plain(const Owned& network, const Pictures& pictures, const std::vector<float>& d, int rows)
      : owned(network), gradient(network.parameters.size()) {
    const std::size_t size = owned.shape.pixels(), last = at(owned.shape.dense.back());
    for (std::size_t r = 0; r < at(rows); ++r) run(&pictures[r * size], &d[r * last]);
  }

 private:
  void run(const std::uint8_t* picture, const float* d) {
    std::vector<Doubles> seen(1);  // what each layer gets: [channels, height, width] of the first ones
    for (std::size_t i = 0; i < owned.shape.pixels(); ++i)
      seen[0].push_back(owned.means.empty() ? picture[i] : (picture[i] - owned.means[i]) * owned.scales[i]);
    const auto& filters = owned.network.trunk.convolutions;
    for (std::size_t l = 0; l < filters.size(); ++l) {
      Doubles y(places(filters[l]) * at(filters[l].outputs));
      each_product(filters[l], [&](std::size_t x, std::size_t w, std::size_t o) {
        y[o] += seen[l][x] * owned.parameters[owned.weights[l] + w] * filters[l].factor;
      });
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += owned.parameters[owned.biases[l] + o / places(filters[l])];
      normalise(l, y);
      for (double& each : y) each = std::fmax(each, 0);
      seen.push_back(y);
    }
    for (const auto& l : owned.dense) {
      Doubles y;
      for (std::size_t o = 0; o < at(l.outputs); ++o) {
        y.push_back(owned.parameters[l.bias + o]);
        for (std::size_t i = 0; i < at(l.inputs); ++i) y[o] += seen.back()[i] * owned.parameters[place(l, i, o)];
      }
      if (&l != &owned.dense.back()) {
        normalise(seen.size() - 1, y);
        for (double& each : y) each = std::fmax(each, 0);
      }
      seen.push_back(y);
    }
    outputs.insert(outputs.end(), seen.back().begin(), seen.back().end());
    back(seen, Doubles(d, d + seen.back().size()));
  }

  void back(const std::vector<Doubles>& seen, Doubles d) {
    const auto& filters = owned.network.trunk.convolutions;
    for (std::size_t l = seen.size() - 1; l-- > 0;) {
      const Doubles& x = seen[l];
      through_norm(l, d);
      Doubles dx(x.size());
      for (const Doubles* all : {&x, static_cast<const Doubles*>(&d)})
        for (const double each : *all) brief = brief && is_short(each);
      if (l >= filters.size()) {
        const auto& layer = owned.dense[l - filters.size()];
        for (std::size_t o = 0; o < d.size(); ++o) {
          gradient[layer.bias + o] += d[o];
          for (std::size_t i = 0; i < x.size(); ++i) {
            gradient[place(layer, i, o)] += x[i] * d[o];
            dx[i] += owned.parameters[place(layer, i, o)] * d[o];
          }
        }
      } else {
        for (std::size_t o = 0; o < d.size(); ++o) gradient[owned.biases[l] + o / places(filters[l])] += d[o];
        each_product(filters[l], [&](std::size_t i, std::size_t w, std::size_t o) {
          gradient[owned.weights[l] + w] += x[i] * d[o] * filters[l].factor;
          dx[i] += owned.parameters[owned.weights[l] + w] * d[o] * filters[l].factor;
        });
      }
      for (std::size_t i = 0; i < x.size(); ++i) dx[i] = x[i] > 0 ? dx[i] : 0;
      d = dx;
    }
  }

  // sums of a layer with a norm; what they are before gains and shifts, and the factor, are noted for the way back
  void normalise(std::size_t l, Doubles& y) {
    if (l >= owned.norms.size()) return;
    normalised.resize(owned.norms.size()), scales.resize(owned.norms.size());
    const auto size = static_cast<double>(y.size());
    double mean = 0, variance = 0;
    for (const double each : y) mean += each / size;
    for (const double each : y) variance += (each - mean) * (each - mean) / size;
    scales[l] = 1 / std::sqrt(variance + 1e-5), normalised[l] = y;
    for (std::size_t o = 0; o < y.size(); ++o) {
      const std::size_t c = o / (y.size() / at(owned.norms[l].channels));
      normalised[l][o] = (y[o] - mean) * scales[l];
      y[o] = owned.parameters[owned.norms[l].gain + c] * normalised[l][o] + owned.parameters[owned.norms[l].shift + c];
    }
  }

  void through_norm(std::size_t l, Doubles& d) {
    if (l >= owned.norms.size()) return;
    const auto size = static_cast<double>(d.size());
    double mean = 0, mean_n = 0;
    for (std::size_t o = 0; o < d.size(); ++o) {
      const std::size_t c = o / (d.size() / at(owned.norms[l].channels));
      gradient[owned.norms[l].gain + c] += d[o] * normalised[l][o], gradient[owned.norms[l].shift + c] += d[o];
      d[o] *= owned.parameters[owned.norms[l].gain + c];
      mean += d[o] / size, mean_n += d[o] * normalised[l][o] / size;
    }
    for (std::size_t o = 0; o < d.size(); ++o) d[o] = scales[l] * (d[o] - mean - normalised[l][o] * mean_n);
  }

  std::vector<Doubles> normalised;  // of a sample, for each layer
  Doubles scales;

  static std::size_t place(const Owned::Dense& l, std::size_t i, std::size_t o) {
    return l.weight + (l.output_first ? o * at(l.inputs) + i : i * at(l.outputs) + o);
  }
  static int tall(const Filters& f) { return (f.height - f.side) / f.stride + 1; }
  static int across(const Filters& f) { return (f.width - f.side) / f.stride + 1; }
  static std::size_t places(const Filters& f) { return at(tall(f) * across(f)); }

  // each(number of an input, of a weight, of an output)
  template <class Each>
  static void each_product(const Filters& f, Each each) {
    for (int o = 0; o < f.outputs; ++o)
      for (int y = 0; y < tall(f); ++y)
        for (int x = 0; x < across(f); ++x)
          for (int down = 0; down < f.side; ++down)
            for (int right = 0; right < f.side; ++right)
              for (int c = 0; c < f.channels; ++c)
                each(at((c * f.height + y * f.stride + down) * f.width + x * f.stride + right),
                     at(((o * f.side + down) * f.side + right) * f.channels + c),
                     at((o * tall(f) + y) * across(f) + x));
  }
};

struct Found {
  std::vector<float> outputs, gradient;
};

Found found_by(Owned& owned, const Pictures& pictures, const std::vector<float>& d, int rows, Registers registers) {
  const auto learner = make_learner(owned.network, registers);
  Found found;
  found.outputs.resize(d.size());
  const Observations seen{nullptr, pictures.data(), static_cast<std::ptrdiff_t>(owned.shape.pixels())};
  learner->forward(seen, rows, found.outputs.data());
  std::fill(owned.gradient.begin(), owned.gradient.end(), 7.0f);
  learner->backward(seen, rows, d.data());
  found.gradient = owned.gradient;
  for (std::size_t i = 0; i < owned.sizes.size(); i += 2) {  // nothing is written behind a parameter's gradient
    const std::size_t end = i + 2 < owned.sizes.size() ? owned.sizes[i + 2] : owned.gradient.size();
    for (std::size_t k = owned.sizes[i] + owned.sizes[i + 1]; k < end; ++k) {
      CHECK(found.gradient[k] == 7.0f);
      found.gradient[k] = 0;
    }
  }
  return found;
}

std::vector<Registers> kinds() {
  std::vector<Registers> all;
  for (const int width : widths()) all.push_back({width, false});
  for (const int width : widths(true)) all.push_back({width, true});
  return all;
}

// those of the same results: of float32 any; of bfloat16 only themselves, as matrix units have another order of sums
Registers alike(Registers registers) { return registers.bfloat16 ? registers : Registers{}; }

void same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  CHECK(a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void exactly(const std::vector<float>& ours, const Doubles& theirs) {
  CHECK(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == theirs[i]);
}

// by the largest of them, with an error that one sum may have; and on average
void within(const std::vector<float>& ours, const Doubles& theirs, double share) {
  double largest = 0, squares = 0, errors = 0;
  for (const double each : theirs) largest = std::fmax(largest, std::fabs(each)), squares += each * each;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    errors += (ours[i] - theirs[i]) * (ours[i] - theirs[i]);
    CHECK(std::fabs(ours[i] - theirs[i]) <= 4 * share * largest);
  }
  CHECK(std::sqrt(errors) <= share * std::sqrt(squares));
}

std::vector<float> signs(std::size_t n, std::mt19937& random) {
  std::vector<float> d(n);
  for (float& each : d) each = random() % 2 == 0 ? 1 : -1;
  return d;
}

void short_numbers_are_exact(const Shape& shape, int rows) {
  Owned owned(shape, true, 1);
  const Pictures pictures = owned.pictures(rows, true);
  const auto d = signs(at(rows * shape.dense.back()), owned.random);
  const Plain plain(owned, pictures, d, rows);
  CHECK(plain.brief);
  for (const Registers registers : kinds()) {
    const Found found = found_by(owned, pictures, d, rows, registers);
    exactly(found.outputs, plain.outputs), exactly(found.gradient, plain.gradient);
  }
}

void all_numbers_are_close(const Shape& shape, int rows) {
  Owned owned(shape, false, 2);
  const Pictures pictures = owned.pictures(rows, false);
  const auto d = signs(at(rows * shape.dense.back()), owned.random);
  const Plain plain(owned, pictures, d, rows);
  std::vector<Found> floats;
  for (const Registers registers : kinds()) {
    const Found found = found_by(owned, pictures, d, rows, registers);
    within(found.outputs, plain.outputs, registers.bfloat16 ? 0.01 : 2e-6);
    // rounding passes ReLU's kinks; what is normalised has small differences of large numbers
    within(found.gradient, plain.gradient, registers.bfloat16 ? 0.15 : shape.normed ? 2e-5 : 2e-6);
    if (!registers.bfloat16) floats.push_back(found);
  }
  for (const Found& each : floats)
    same_bits(each.outputs, floats[0].outputs), same_bits(each.gradient, floats[0].gradient);
}

// all that three updates of dueling action values leave, from pictures that do not follow each other in memory
std::vector<float> learnt_values(const Shape& shape, Registers registers, int threads = 1) {
  constexpr int kRows = 70;
  const int actions = shape.dense.back() - 1;
  Owned q(shape, false, 3), target(shape, false, 4);
  for (Filters& each : target.network.trunk.convolutions) each.weight_gradient = each.bias_gradient = nullptr;
  for (Layer& each : target.network.stacks[0])
    for (Part& part : each.parts) part.weight_gradient = part.bias_gradient = nullptr;
  const auto learner = make_q_learner({actions, true, q.network, target.network, q.adam()}, registers);
  const Pictures pictures = q.pictures(2 * kRows, false);
  const auto distance = static_cast<std::ptrdiff_t>(2 * shape.pixels());
  const auto rewards = signs(kRows, q.random);
  const std::vector<float> discounts(kRows, 0.9f);
  std::vector<std::int64_t> choices;
  for (int r = 0; r < kRows; ++r) choices.push_back(r % actions);
  const Transitions batch{kRows,
                          {nullptr, pictures.data(), distance},
                          {nullptr, pictures.data() + shape.pixels(), distance},
                          {},
                          {rewards.data(), 1},
                          {discounts.data(), 1},
                          {}};
  std::vector<float> results(kRows);
  for (int i = 0; i < 3; ++i) {
    const auto s = learner->improve(batch, choices.data(), {1e-3, 0.5, true, true, threads}, results.data());
    for (const double each : {s.loss, s.mean, s.gradient_norm}) results.push_back(static_cast<float>(each));
    CHECK(std::isfinite(s.loss) && s.loss > 0 && s.gradient_norm > 0);
  }
  results.insert(results.end(), q.parameters.begin(), q.parameters.end());
  return results;
}

// all that two epochs of action values leave, of minibatches with one block and part of another
std::vector<float> learnt_from_rollouts(const Shape& shape, Registers registers, int threads = 1) {
  constexpr int kRows = 600, kSize = 300;
  Owned owned(shape, false, 6);
  const auto learner = make_value_learner(owned.network, owned.adam(), registers);
  const Pictures pictures = owned.pictures(kRows, false);
  const auto returns = signs(kRows, owned.random);
  std::vector<std::int64_t> choices, order;
  for (int i = 0; i < kRows; ++i) choices.push_back(i % shape.dense.back()), order.push_back(i * 7 % kRows);
  const ValueRollout rollout{
      {nullptr, pictures.data(), static_cast<std::ptrdiff_t>(shape.pixels())}, choices.data(), returns.data()};
  std::vector<float> results;
  for (int i = 0; i < 2; ++i) {
    const auto s = learner->epoch(rollout, order.data(), kRows / kSize, kSize, 1e-2, 0.5, threads);
    for (const double each : {s.loss, s.mean, s.gradient_norm}) results.push_back(static_cast<float>(each));
    CHECK(std::isfinite(s.mean) && s.loss > 0 && s.gradient_norm > 0);
  }
  CHECK(results[3] < results[0]);  // the loss
  CHECK(owned.steps[0] == 4);
  for (const auto* each : {&owned.parameters, &owned.mean, &owned.square})
    results.insert(results.end(), each->begin(), each->end());
  return results;
}

// all of a policy's and values' results after an epoch of two minibatches
std::vector<float> learnt(Registers registers, int threads) {
  constexpr int kRows = 300;
  const Shape nature{4, 36, 36, {{32, 8, 4}, {64, 4, 2}, {64, 3, 1}}, {70, 4}};
  const Shape small{4, 20, 20, {{32, 5, 3}, {32, 3, 1}}, {70, 4}};  // whose halves of 150 rows are worth sharing, too
  const Shape& shape = kInstrumented ? small : nature;
  Owned owned(shape, false, 5);
  const auto learner = make_learner(owned.network, registers);
  const Pictures pictures = owned.pictures(kRows, false);
  const auto columns = signs(4 * kRows, owned.random);
  std::vector<std::int64_t> choices, order;
  for (int i = 0; i < kRows; ++i) choices.push_back(i % 3), order.push_back(i * 7 % kRows);
  const Rollout rollout{{nullptr, pictures.data(), static_cast<std::ptrdiff_t>(shape.pixels())},
                        choices.data(),
                        nullptr,
                        columns.data(),
                        columns.data() + kRows,
                        columns.data() + 2 * kRows,
                        columns.data() + 3 * kRows};
  const auto s = learner->epoch({false, 3, 3}, rollout, order.data(), 2, kRows / 2,
                                {1e-3, 0.2, 0.01, 0.5, 0.5, -1, true}, owned.adam(), threads);
  CHECK(std::isfinite(s.policy_loss) && s.entropy > 0 && s.gradient_norm > 0);
  auto results = owned.parameters;
  results.insert(results.end(), owned.mean.begin(), owned.mean.end());
  return results;
}

}  // namespace

constexpr int kLarge = 1000;  // pixels

int main() {
  if (widths().empty()) return 77;  // this processor has no such registers
  const std::vector<Shape> shapes{
      {1, 4, 4, {{1, 4, 4}}, {1}},
      {1, 8, 9, {{5, 3, 1}}, {3}},
      {1, 16, 1, {{3, 1, 3}}, {2}},
      {2, 11, 8, {{16, 4, 3}}, {7}, true},
      {3, 10, 13, {{4, 8, 2}}, {20, 3}},
      {4, 12, 9, {{17, 2, 4}}, {9}, true},
      {5, 7, 7, {{3, 1, 1}, {20, 2, 1}}, {33, 5}, true},
      {7, 9, 8, {{12, 3, 2}, {31, 1, 2}}, {6}},
      {12, 9, 20, {{33, 3, 2}, {7, 2, 2}, {16, 1, 1}}, {80, 4}},
      {1, 36, 37, {{32, 6, 3}, {32, 3, 2}}, {70, 4}, true},
      {4, 36, 36, {{32, 8, 4}, {64, 4, 2}, {64, 3, 1}}, {65, 7}},
      {1, 16, 1, {{2, 1, 17}}, {2}},
      {5, 17, 23, {{10, 5, 3}, {11, 2, 3}, {18, 1, 1}}, {4}, true},
  };
  const std::vector<Shape> normed{
      {1, 4, 4, {{2, 4, 4}}, {1}, false, true},
      {4, 10, 10, {{16, 3, 1}}, {128, 3}, false, true},
      {7, 9, 13, {{5, 3, 2}, {33, 2, 1}}, {3, 70, 6}, false, true},
      {2, 12, 11, {{17, 2, 4}}, {9, 1, 2}, true, true},
      {4, 36, 36, {{32, 8, 4}, {64, 4, 2}, {64, 3, 1}}, {80, 4}, false, true},
  };
  for (const Shape& shape : normed) {
    if (kInstrumented && shape.pixels() >= kLarge) continue;
    for (const int rows : {1, 8, 19})
      if (!kInstrumented || rows == 19) all_numbers_are_close(shape, rows);
    if (!kInstrumented && shape.pixels() < kLarge) all_numbers_are_close(shape, 65);
  }
  for (const Registers registers : kinds())
    for (const std::size_t i : {1, 2})
      for (const int threads : {1, 2, 3, 8})
        if (!kInstrumented || (i == 2 && threads == 3))
          same_bits(learnt_from_rollouts(normed[i], registers, threads),
                    learnt_from_rollouts(normed[i], alike(registers)));
  for (const Shape& shape : shapes) {
    if (kInstrumented && shape.pixels() >= kLarge) continue;
    for (const int rows : {1, 7, 8, 9})
      if (!kInstrumented || rows % 8 == 1) short_numbers_are_exact(shape, rows), all_numbers_are_close(shape, rows);
    short_numbers_are_exact(shape, 17);
    if (!kInstrumented && shape.pixels() < kLarge) short_numbers_are_exact(shape, 65), all_numbers_are_close(shape, 65);
  }
  if (!kInstrumented) short_numbers_are_exact(shapes[4], 257);  // two blocks of the largest size
  for (const Registers registers : kinds())
    for (const std::size_t i : {6, kInstrumented ? 6 : 10})
      same_bits(learnt_values(shapes[i], registers), learnt_values(shapes[i], alike(registers)));
  // threads share groups of samples, and weights
  const auto one = learnt({}, 1);
  for (const Registers registers : kinds())
    for (const int threads : {2, 3, 8})
      if (threads == 3 || (!kInstrumented && (registers.bfloat16 || registers.width == widths().front())))
        same_bits(registers.bfloat16 ? learnt(registers, 1) : one, learnt(registers, threads));
  const Shape& large = shapes[kInstrumented ? 6 : 10];
  for (const int threads : {2, 3, 8})
    if (threads == 3 || !kInstrumented) same_bits(learnt_values(large, {}, 1), learnt_values(large, {}, threads));
  std::puts("convolutions: passed");
}
