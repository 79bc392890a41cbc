// Small networks and their updates on a CPU, in blocks of samples that stay in a core's cache.
//
// An update of a small network in a framework is some fifty operations, each of which walks through memory and costs a
// call; its arithmetic takes a tenth of that. Here a block of samples goes through the layers, the loss and back while
// it is in the cache, and one call makes all updates of an epoch.
//
// The library knows no Python. Parameters, their gradients and the optimiser's moments are the caller's memory. All
// sums have a fixed order: results do not depend on the width of the registers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace headrace::learner {

// some of a layer's outputs: their weights and biases, and where the gradients go
struct Part {
  int outputs;
  bool output_first;  // weights are [outputs, inputs]; else [inputs, outputs]
  float *weight, *bias, *weight_gradient, *bias_gradient;
};

struct Layer {
  int inputs;
  std::vector<Part> parts;  // whose outputs follow each other
};

// layers of which all but the last have activations
using Stack = std::vector<Layer>;

enum class Activation { kTanh, kRelu };

// several stacks over the same inputs; its outputs are theirs, one after the other
struct Network {
  int inputs;
  Activation activation;
  std::vector<Stack> stacks;
};

// Adam over all parameters, which lie one after the other, as do their gradients
struct Adam {
  float *parameters, *gradient, *mean, *square;
  std::int64_t size;
  double beta1, beta2, epsilon;
};

// An actor and a critic in one network: columns of its outputs are the parameters of the actions' distribution, and one
// is the value. A normal distribution has its logarithms of deviations beside the network.
struct ActorCritic {
  bool continuous;
  int choices;            // logits, or dimensions of a continuous action
  int value;              // column of the value; the others come first
  float *log_std = nullptr, *log_std_gradient = nullptr;  // [choices], where continuous
};

// samples of a rollout, by rows
struct Rollout {
  const float* inputs;             // [rows, inputs]
  const std::int64_t* choices;     // [rows], of discrete actions
  const float* actions;            // [rows, dimensions], of continuous ones
  const float *log_probs, *advantages, *returns, *values;  // [rows]
};

// of proximal policy optimisation
struct Rates {
  double learning_rate, clip_range, entropy_coef, value_coef, max_grad_norm;
  double value_clip_range;  // less than 0: none
  bool normalise_advantages;
};

// averages over an epoch's minibatches
struct Statistics {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0, gradient_norm = 0;
};

class Learner {
 public:
  virtual ~Learner();

  // Parameters have changed by other hands.
  virtual void refresh() = 0;

  // outputs [rows, all] of inputs [rows, inputs]
  virtual void forward(const float* inputs, int rows, float* outputs) = 0;

  // Writes the gradients of parameters, given those of the outputs.
  virtual void backward(const float* inputs, int rows, const float* output_gradients) = 0;

  // Makes one update for each of the minibatches: `order` has their rows, one minibatch after the other. `steps` are
  // those that Adam has made before.
  virtual Statistics epoch(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int minibatches,
                           int size, const Rates& rates, const Adam& adam, std::int64_t steps) = 0;
};

// widths of registers that this processor can run, the best first; empty: none
std::vector<int> widths();

// width 0: the best; throws std::invalid_argument
std::unique_ptr<Learner> make_learner(Network network, int width = 0);

}  // namespace headrace::learner
