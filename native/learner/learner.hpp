// Small networks and their updates on a CPU, in blocks of samples that stay in a core's cache.
//
// An update of a small network in a framework is some fifty operations, each of which walks through memory and costs a
// call; its arithmetic takes a tenth of that. Here a block of samples goes through the layers, the loss and back while
// it is in the cache, and one call makes all updates of an epoch, or an update of critics and actor.
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
  int begin = 0, inputs = 0;  // the layer's inputs that they depend on; 0: all of them
};

// gains and shifts of a normalisation, one for each channel; none without a gain
struct Norm {
  float *gain = nullptr, *shift = nullptr, *gain_gradient = nullptr, *shift_gradient = nullptr;
  float epsilon = 0;  // added to variances
};

struct Layer {
  int inputs;
  std::vector<Part> parts;  // whose outputs follow each other
  Norm norm = {};           // of the outputs, before the activation
  int columns = 0;          // of what it gets, of which it reads the first `inputs`; 0: no more
};

// layers of which all but the last have activations
using Stack = std::vector<Layer>;

enum class Activation { kTanh, kRelu };

// A convolution with a ReLU over pictures; weights [outputs, side, side, channels] are multiplied by `factor`.
struct Filters {
  int channels, height, width, outputs, side, stride;
  float *weight, *bias, *weight_gradient, *bias_gradient;
  float factor = 1;
  Norm norm = {};  // of all outputs at all places together, before the ReLU
};

// Convolutions over pictures of bytes [channels, height, width], of which a mean is subtracted, and which are then
// multiplied by a scale, of each pixel; none without them.
struct Trunk {
  std::vector<Filters> convolutions;
  const float *mean = nullptr, *scale = nullptr;
};

// Several stacks over the same inputs, which may be what a trunk makes of pictures; its outputs are theirs, one after
// the other.
struct Network {
  int inputs;
  Activation activation;
  std::vector<Stack> stacks;
  Trunk trunk = {};
};

// Adam over all parameters, which lie one after the other, as do their gradients; `steps` are those that it has made
struct Adam {
  float *parameters, *gradient, *mean, *square, *steps;
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

// What networks see of samples, so many numbers or bytes apart: rows of numbers, or pictures for a trunk.
struct Observations {
  const float* numbers = nullptr;
  const std::uint8_t* pictures = nullptr;
  std::ptrdiff_t distance = 0;

  const float* row(std::ptrdiff_t r) const { return numbers + r * distance; }
  const std::uint8_t* picture(std::ptrdiff_t r) const { return pictures + r * distance; }
};

// samples of a rollout, by rows
struct Rollout {
  Observations inputs;
  const std::int64_t* choices;     // [rows], of discrete actions
  const float* actions;            // [rows, dimensions], of continuous ones
  const float *log_probs, *advantages, *returns, *values;  // [rows]
  const bool* forbidden = nullptr;  // [rows, choices], of discrete actions; none without masks
};

// of proximal policy optimisation
struct Rates {
  double learning_rate, clip_range, entropy_coef, value_coef, max_grad_norm;
  double value_clip_range;  // less than 0: none
  bool normalise_advantages;
  int measured = 0;  // of a minibatch's samples the first, whose ratios are measured; 0: all
};

// averages over an epoch's minibatches
struct Statistics {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0, gradient_norm = 0;
};

class Learner {
 public:
  virtual ~Learner();

  // Parameters have changed by other hands. No number of threads, here and below, changes any result.
  virtual void refresh(int threads = 1) = 0;

  // Outputs [rows, all] of inputs; keeps: whether `backward` of these may follow at once.
  virtual void forward(const Observations& inputs, int rows, float* outputs, bool keeps = false, int threads = 1) = 0;

  // Writes the gradients of parameters, given those of the outputs; kept: whether the last call was `forward` of these
  // inputs, which kept what it made.
  virtual void backward(const Observations& inputs, int rows, const float* output_gradients, bool kept = false,
                        int threads = 1) = 0;

  // Makes one update for each of the minibatches: `order` has their rows, one minibatch after the other.
  virtual Statistics epoch(const ActorCritic& heads, const Rollout& rollout, const std::int64_t* order, int minibatches,
                           int size, const Rates& rates, const Adam& adam, int threads) = 0;
};

// numbers of samples, from row to row a distance apart
struct Rows {
  const float* data = nullptr;
  std::ptrdiff_t distance = 0;

  const float* row(std::ptrdiff_t r) const { return data + r * distance; }
  float operator[](std::ptrdiff_t r) const { return *row(r); }
};

// as headrace.train.storage.transitions has them; no weights: equal ones
struct Transitions {
  int rows;
  Observations inputs, next_inputs;
  Rows actions, rewards, discounts, weights;

  float weight(int r) const { return weights.data == nullptr ? 1.0f : weights[r]; }
};

// A policy, critics of inputs followed by actions, and their targets. A policy without a target is its own; then its
// outputs are the means and logarithms of deviations of normal variables, whose tanh are actions (SAC). Otherwise
// actions are the tanh of its outputs (TD3, DDPG).
struct ActorCriticNetworks {
  int inputs, actions;
  Network actor, critics, target_actor, target_critics;
  Adam actor_adam, critic_adam, temperature_adam;  // the temperature is one number, a logarithm

  bool stochastic() const { return target_actor.stacks.empty(); }
};

struct ActorCriticRates {
  double critic_learning_rate, actor_learning_rate;
  double max_grad_norm;   // infinite: none
  double critic_weight;   // of each critic's mean squared error
  double target_entropy;  // of a stochastic policy
  int threads = 1;        // which may share the work, and change no result
};

struct CriticStatistics {
  double loss = 0, mean = 0, gradient_norm = 0;
};

struct ActorStatistics {
  double loss = 0, gradient_norm = 0, entropy = 0, temperature = 0;
};

class ActorCriticLearner {
 public:
  virtual ~ActorCriticLearner();

  // One gradient step of the critics. Noise [rows, actions] is standard normal, or what is added to the targets' actions.
  virtual CriticStatistics improve_critics(const Transitions& batch, const float* noise,
                                           const ActorCriticRates& rates) = 0;

  // One gradient step of the actor, and of the temperature.
  virtual ActorStatistics improve_actor(const Transitions& batch, const float* noise,
                                        const ActorCriticRates& rates) = 0;
};

// Action values and their targets, without trunks or each with one; of dueling ones the outputs are the actions' advantages, and the state's value.
struct QNetworks {
  int actions;
  bool dueling;
  Network q, target;
  Adam adam;
};

struct QRates {
  double learning_rate, max_grad_norm;
  bool chooses, huber;  // whether the network chooses the actions whose target values count; Huber's loss, or squares
  int threads = 1;  // which may share the work, and change no result
};

class QLearner {
 public:
  virtual ~QLearner();

  // One gradient step, for actions [rows]; writes the absolute errors of values, [rows].
  virtual CriticStatistics improve(const Transitions& batch, const std::int64_t* actions, const QRates& rates,
                                   float* errors) = 0;
};

// samples of a rollout, by rows: the value of a choice shall be what is returned
struct ValueRollout {
  Observations inputs;
  const std::int64_t* choices;
  const float* returns;
};

class ValueLearner {
 public:
  virtual ~ValueLearner();

  // Makes one update for each of the minibatches: `order` has their rows, one minibatch after the other. Returns averages.
  virtual CriticStatistics epoch(const ValueRollout& rollout, const std::int64_t* order, int minibatches, int size,
                                 double learning_rate, double max_grad_norm, int threads) = 0;
};

// target += rate · (source - target)
void polyak_update(float* target, const float* source, std::int64_t size, float rate);

constexpr int kTileWidth = 256;  // floats in a register of a matrix unit

// widths of registers that this processor can run, the best first; empty: none
std::vector<int> widths(bool bfloat16 = false);

// what makes a learner
struct Registers {
  int width = 0;  // 0: the best
  bool bfloat16 = false;  // products of wide layers in bfloat16
};

// each throws std::invalid_argument if this processor has no such registers
std::unique_ptr<Learner> make_learner(Network network, Registers registers = {});
std::unique_ptr<ActorCriticLearner> make_actor_critic_learner(ActorCriticNetworks networks, Registers registers = {});
std::unique_ptr<QLearner> make_q_learner(QNetworks networks, Registers registers = {});
std::unique_ptr<ValueLearner> make_value_learner(Network network, Adam radam, Registers registers = {});

}  // namespace headrace::learner
