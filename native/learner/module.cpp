// The extension module headrace_learner._learner.
#include <nanobind/stl/unique_ptr.h>

#include "bound.hpp"

NB_MODULE(_learner, m) {
  using namespace headrace::learner;
  m.doc() = "Updates of small networks on a CPU.";
  nb::set_leak_warnings(false);
  m.def(
      "widths", [](bool bfloat16) { return widths(bfloat16); }, nb::kw_only(), "bfloat16"_a = false,
      "Floats in a register, of those that this processor has, or that multiply bfloat16; the best first.");
  m.def(
      "polyak_update",
      [](const Out<1>& target, const In<1>& source, float rate) {
        check(target.size() == source.size(), "as many parameters as targets");
        nb::gil_scoped_release unlocked;
        polyak_update(target.data(), source.data(), static_cast<std::int64_t>(target.size()), rate);
      },
      array("target"), array("source"), "rate"_a, "target += rate (source - target), of float32[P]; on one thread.");

  nb::class_<NormArrays>(
      m, "Norm",
      "A normalisation of a sample's outputs of a layer, before their activation. gain, shift: float32[outputs], or of filters one\n"
      "for each channel; epsilon is added to variances. Gradients have the same shapes; a target has none.")
      .def(
          "__init__",
          [](NormArrays* self, Out<1> gain, Out<1> shift, std::optional<Out<1>> gain_gradient,
             std::optional<Out<1>> shift_gradient, float epsilon) {
            const NormArrays made{gain, shift, gain_gradient, shift_gradient, epsilon};
            made.check_shapes();
            new (self) NormArrays(made);
          },
          nb::kw_only(), array("gain"), array("shift"), perhaps("gain_gradient"), perhaps("shift_gradient"),
          "epsilon"_a);

  nb::class_<Linear>(
      m, "Linear",
      "Some of a layer's outputs. weight: float32[outputs, inputs] if output_first, else [inputs, outputs]; bias: float32[outputs];\n"
      "begin: the first of the layer's inputs that they depend on; norm: of a layer's only part. Gradients have the same shapes; a\n"
      "target has none.")
      .def(
          "__init__",
          [](Linear* self, Out<2> weight, Out<1> bias, std::optional<Out<2>> weight_gradient,
             std::optional<Out<1>> bias_gradient, bool output_first, int begin, std::optional<NormArrays> norm) {
            const Linear made{weight, bias, weight_gradient, bias_gradient, output_first, begin, std::move(norm)};
            made.check_shapes();
            new (self) Linear(made);
          },
          nb::kw_only(), array("weight"), array("bias"), perhaps("weight_gradient"), perhaps("bias_gradient"),
          "output_first"_a = true, "begin"_a = 0, "norm"_a = nb::none())
      .def_prop_ro("outputs", &Linear::outputs, "The number of these outputs.");

  nb::class_<Convolution>(
      m, "Convolution",
      "Filters with a ReLU. weight: float32[outputs, side, side, channels], which is multiplied by factor; bias: float32[outputs];\n"
      "norm: of all outputs at all places together. Gradients have the same shapes; a target has none.")
      .def(
          "__init__",
          [](Convolution* self, Out<4> weight, Out<1> bias, std::optional<Out<4>> weight_gradient,
             std::optional<Out<1>> bias_gradient, int stride, float factor, std::optional<NormArrays> norm) {
            const Convolution made{weight, bias, weight_gradient, bias_gradient, stride, factor, std::move(norm)};
            made.check_shapes();
            new (self) Convolution(made);
          },
          nb::kw_only(), array("weight"), array("bias"), perhaps("weight_gradient"), perhaps("bias_gradient"),
          "stride"_a, "factor"_a = 1.0f, "norm"_a = nb::none());

  nb::class_<TrunkArrays>(
      m, "Trunk",
      "Convolutions over pictures uint8[B, *shape], shape being channels, height and width, whose results are a network's inputs.\n"
      "mean, scale: of pixels, float32[*shape]: what convolutions see is (picture - mean) scale.")
      .def(
          "__init__",
          [](TrunkArrays* self, std::tuple<int, int, int> shape, std::vector<Convolution> convolutions,
             std::optional<Array<const float, 3>> mean, std::optional<Array<const float, 3>> scale) {
            const auto [channels, height, width] = shape;
            const TrunkArrays made{channels, height, width, std::move(convolutions), mean, scale};
            made.check_shapes();
            new (self) TrunkArrays(made);
          },
          nb::kw_only(), "shape"_a, "convolutions"_a, perhaps("mean") = nb::none(), perhaps("scale") = nb::none());

  nb::class_<AdamArrays>(
      m, "Adam",
      "An optimiser: parameters, gradient and moments float32[P], which begin on cache lines and fill them; steps float32[1].")
      .def(
          "__init__",
          [](AdamArrays* self, Out<1> parameters, Out<1> gradient, Out<1> mean, Out<1> square, Out<1> steps,
             double beta1, double beta2, double epsilon) {
            check(parameters.size() % 16 == 0, "parameters in whole cache lines");
            const AdamArrays made{parameters, gradient, mean, square, steps, beta1, beta2, epsilon};
            made.check_shapes();
            new (self) AdamArrays(made);
          },
          nb::kw_only(), array("parameters"), array("gradient"), array("mean"), array("square"), array("steps"),
          "beta1"_a, "beta2"_a, "epsilon"_a);

  nb::class_<Bound>(
      m, "Learner",
      "A network whose parameters, and their gradients, are the caller's memory.\n\n"
      "stacks: for each, its layers, of which each is a list of parts. log_std: of a normal distribution, float32[outputs - 1].")
      .def(
          "__init__",
          [](Bound* self, int inputs, bool relu, Stacks stacks, std::optional<Out<1>> log_std,
             std::optional<Out<1>> log_std_gradient, std::optional<TrunkArrays> trunk, int width, bool bfloat16) {
            new (self) Bound({inputs, std::move(trunk)}, relu, std::move(stacks), log_std, log_std_gradient,
                             {width, bfloat16});
          },
          nb::kw_only(), "inputs"_a, "relu"_a, "stacks"_a, perhaps("log_std") = nb::none(),
          perhaps("log_std_gradient") = nb::none(), "trunk"_a = nb::none(), "width"_a = 0, "bfloat16"_a = false)
      .def(
          "refresh",
          [](Bound& self, int threads) {
            nb::gil_scoped_release unlocked;
            const std::lock_guard lock(self.alone);
            self.learner->refresh(threads);
          },
          "threads"_a = 1, "Parameters have changed by other hands.")
      .def(
          "forward",
          [](Bound& self, const Seen& inputs, const Out<2>& outputs, bool keeps, int threads) {
            const Observations seen = self.observations(inputs, outputs);
            nb::gil_scoped_release unlocked;
            const std::lock_guard lock(self.alone);
            self.learner->forward(seen, static_cast<int>(outputs.shape(0)), outputs.data(), keeps, threads);
          },
          array("inputs"), array("outputs"), "keeps"_a = false, "threads"_a = 1,
          "Writes the outputs float32[B, all stacks'] of inputs float32[B, D], or of pictures uint8[B, C, H, W].\n\n"
          "keeps: whether backward of the same inputs may follow as the next call. threads: how many may share the work, which\n"
          "changes no result, as in all other calls.")
      .def(
          "backward",
          [](Bound& self, const Seen& inputs, const In<2>& gradients, bool kept, int threads) {
            const Observations seen = self.observations(inputs, gradients);
            nb::gil_scoped_release unlocked;
            const std::lock_guard lock(self.alone);
            self.learner->backward(seen, static_cast<int>(gradients.shape(0)), gradients.data(), kept, threads);
          },
          array("inputs"), array("gradients"), "kept"_a = false, "threads"_a = 1,
          "Writes the gradients of all parameters, given those of the outputs.\n\n"
          "kept: whether the last call was forward of these inputs, with keeps.")
      .def(
          "epoch",
          [](Bound& self, const Seen& inputs, const std::optional<Numbers>& choices,
             const std::optional<In<2>>& actions, const In<1>& log_probs, const In<1>& advantages, const In<1>& returns,
             const In<1>& values, const std::optional<Array<const bool, 2>>& forbidden, const Order& order,
             double learning_rate, double clip_range, double entropy_coef, double value_coef, double max_grad_norm,
             std::optional<double> value_clip_range, bool normalise_advantages, const AdamArrays& adam, int threads,
             int measured) {
            const Rollout rollout =
                self.rollout(inputs, choices, actions, log_probs, advantages, returns, values, forbidden, order);
            const int size = static_cast<int>(self.outputs) - 1;
            const ActorCritic heads{actions.has_value(), size, size, data(self.log_std), data(self.log_std_gradient)};
            const Rates rates{learning_rate,        clip_range,    entropy_coef,
                              value_coef,           max_grad_norm, value_clip_range.value_or(-1),
                              normalise_advantages, measured};
            check(measured >= 0 && static_cast<std::size_t>(measured) <= order.shape(1), "as many measured as samples");
            Statistics s;
            {
              nb::gil_scoped_release unlocked;
              const std::lock_guard lock(self.alone);
              s = self.learner->epoch(heads, rollout, order.data(), static_cast<int>(order.shape(0)),
                                      static_cast<int>(order.shape(1)), rates, adam.adam(), threads);
            }
            return std::vector<double>{s.policy_loss, s.value_loss,    s.entropy,
                                       s.approx_kl,   s.clip_fraction, s.gradient_norm};
          },
          nb::kw_only(), array("inputs"), perhaps("choices"), perhaps("actions"), array("log_probs"),
          array("advantages"), array("returns"), array("values"), perhaps("forbidden"), array("order"),
          "learning_rate"_a, "clip_range"_a, "entropy_coef"_a, "value_coef"_a, "max_grad_norm"_a,
          "value_clip_range"_a.none(), "normalise_advantages"_a, "adam"_a, "threads"_a, "measured"_a = 0,
          "Makes one update of proximal policy optimisation for each row of order, int64[minibatches, size].\n\n"
          "choices int64[rows], or actions float32[rows, size]; log_probs, advantages, returns, values float32[rows]; forbidden:\n"
          "masked choices, bool[rows, size]; measured: of each minibatch the first, of which KL and share of clipped are; 0: all.\n"
          "Returns averages: policy loss, value loss, entropy, KL, share of clipped, gradient's norm.");

  nb::class_<BoundActorCritic>(
      m, "ActorCriticLearner",
      "A policy and its critics, whose inputs are followed by actions; networks as for Learner.\n\n"
      "A policy without target_actor is stochastic, and has a temperature: means and logarithms of deviations of variables\n"
      "whose tanh are actions.")
      .def(
          "__init__",
          [](BoundActorCritic* self, int inputs, int actions, bool relu, const Stacks& actor, const Stacks& critics,
             const Stacks& target_actor, const Stacks& target_critics, const AdamArrays& actor_adam,
             const AdamArrays& critic_adam, const std::optional<AdamArrays>& temperature_adam, int width,
             bool bfloat16) {
            const bool stochastic = target_actor.empty();
            check(stochastic == temperature_adam.has_value(), "a temperature's optimiser, of a stochastic policy");
            check(actor.size() == 1 && target_actor.size() <= 1 && !critics.empty() &&
                      critics.size() == target_critics.size(),
                  "a policy, and critics with targets");
            const AdamArrays& temperature = temperature_adam.value_or(critic_adam);
            ActorCriticNetworks networks{inputs,
                                         actions,
                                         network_of({inputs, {}}, relu, actor),
                                         network_of({inputs + actions, {}}, relu, critics),
                                         network_of({inputs, {}}, relu, target_actor),
                                         network_of({inputs + actions, {}}, relu, target_critics),
                                         actor_adam.adam(),
                                         critic_adam.adam(),
                                         temperature.adam()};
            new (self) BoundActorCritic{inputs,
                                        actions,
                                        stochastic,
                                        {actor, critics, target_actor, target_critics},
                                        {actor_adam, critic_adam, temperature},
                                        make_actor_critic_learner(std::move(networks), {width, bfloat16})};
          },
          nb::kw_only(), "inputs"_a, "actions"_a, "relu"_a, "actor"_a, "critics"_a, "target_actor"_a,
          "target_critics"_a, "actor_adam"_a, "critic_adam"_a, "temperature_adam"_a.none(), "width"_a = 0,
          "bfloat16"_a = false)
      .def(
          "update",
          [](BoundActorCritic& self, const Seen& inputs, const Matrix& actions, const Column& rewards,
             const Column& discounts, const Seen& next_inputs, const std::optional<Column>& weights,
             const std::optional<In<2>>& next_noise, const std::optional<In<2>>& noise, double critic_learning_rate,
             double actor_learning_rate, double max_grad_norm, double critic_weight, double target_entropy,
             bool critics, bool actor, int threads) {
            Batch batch(inputs, rewards, discounts, next_inputs, weights, {self.inputs, {}});
            batch.transitions.actions = batch.rows_of(actions, self.actions);
            return self.update(
                batch, next_noise, noise,
                {critic_learning_rate, actor_learning_rate, max_grad_norm, critic_weight, target_entropy, threads},
                critics, actor);
          },
          nb::kw_only(), array("inputs"), array("actions"), array("rewards"), array("discounts"), array("next_inputs"),
          perhaps("weights"), perhaps("next_noise"), perhaps("noise"), "critic_learning_rate"_a,
          "actor_learning_rate"_a, "max_grad_norm"_a, "critic_weight"_a, "target_entropy"_a, "critics"_a, "actor"_a,
          "threads"_a,
          "Makes a gradient step of the critics, and one of the actor.\n\n"
          "noise float32[B, A]: standard normal; for target_actor, what is added to its actions. critic_weight: of each critic's\n"
          "mean squared error. max_grad_norm: infinite for none.\n"
          "Returns the critics' loss, mean value and gradient's norm; the actor's loss, gradient's norm, entropy, temperature.");

  nb::class_<BoundQ>(
      m, "QLearner",
      "Action values and their targets, networks as for Learner; of dueling ones the last output is the state's value.")
      .def(
          "__init__",
          [](BoundQ* self, int inputs, int actions, bool relu, bool dueling, const Stacks& q, const Stacks& target,
             const AdamArrays& adam, const std::optional<TrunkArrays>& trunk,
             const std::optional<TrunkArrays>& target_trunk, int width, bool bfloat16) {
            check(q.size() == 1 && target.size() == 1, "one network, and its target");
            check(trunk.has_value() == target_trunk.has_value(), "a trunk, and its target");
            const Sight sight{inputs, trunk};
            QNetworks networks{actions, dueling, network_of(sight, relu, q),
                               network_of({inputs, target_trunk}, relu, target), adam.adam()};
            new (self) BoundQ{sight,       actions, target_trunk,
                              {q, target}, adam,    make_q_learner(std::move(networks), {width, bfloat16})};
          },
          nb::kw_only(), "inputs"_a, "actions"_a, "relu"_a, "dueling"_a, "q"_a, "target"_a, "adam"_a,
          "trunk"_a = nb::none(), "target_trunk"_a = nb::none(), "width"_a = 0, "bfloat16"_a = false)
      .def(
          "update",
          [](BoundQ& self, const Seen& inputs, const Numbers& actions, const Column& rewards, const Column& discounts,
             const Seen& next_inputs, const std::optional<Column>& weights, double learning_rate, double max_grad_norm,
             bool chooses, bool huber, const Out<1>& errors, int threads) {
            const Batch batch(inputs, rewards, discounts, next_inputs, weights, self.sight);
            check(batch.has(actions) && batch.has(errors), "as many actions and errors as transitions");
            for (std::size_t r = 0; r < actions.size(); ++r)
              check(actions.data()[r] >= 0 && actions.data()[r] < self.actions, "an action that there is not");
            nb::gil_scoped_release unlocked;
            const CriticStatistics s =
                self.learner->improve(batch.transitions, actions.data(),
                                      {learning_rate, max_grad_norm, chooses, huber, threads}, errors.data());
            return std::vector<double>{s.loss, s.mean, s.gradient_norm};
          },
          nb::kw_only(), array("inputs"), array("actions"), array("rewards"), array("discounts"), array("next_inputs"),
          perhaps("weights"), "learning_rate"_a, "max_grad_norm"_a, "chooses"_a, "huber"_a, array("errors"),
          "threads"_a,
          "Makes a gradient step; writes the absolute errors of values, float32[B].\n\n"
          "chooses: whether the network, not its target, chooses the next action. Returns the loss, the mean value and the\n"
          "gradient's norm.");

  nb::class_<BoundValues>(
      m, "ValueLearner",
      "Action values that are learnt from rollouts, by RAdam, whose memory is as that of Adam; networks as for Learner.")
      .def(
          "__init__",
          [](BoundValues* self, int inputs, bool relu, const Stacks& stacks, const AdamArrays& radam,
             const std::optional<TrunkArrays>& trunk, int width, bool bfloat16) {
            check(stacks.size() == 1, "one stack of layers");
            const Sight sight{inputs, trunk};
            Network network = network_of(sight, relu, stacks);
            std::size_t actions = 0;
            for (const Linear& part : stacks[0].back()) actions += static_cast<std::size_t>(part.outputs());
            new (self) BoundValues{sight, actions, stacks, radam,
                                   make_value_learner(std::move(network), radam.adam(), {width, bfloat16})};
          },
          nb::kw_only(), "inputs"_a, "relu"_a, "stacks"_a, "radam"_a, "trunk"_a = nb::none(), "width"_a = 0,
          "bfloat16"_a = false)
      .def(
          "epoch",
          [](BoundValues& self, const Seen& inputs, const Numbers& choices, const In<1>& returns, const Order& order,
             double learning_rate, double max_grad_norm, int threads) {
            const std::size_t rows = rows_of(inputs);
            check(choices.size() == rows && returns.size() == rows, "as many choices and returns as inputs");
            check_order(order, rows), check_choices(choices, self.actions);
            const ValueRollout rollout{self.sight.observations(inputs, rows), choices.data(), returns.data()};
            nb::gil_scoped_release unlocked;
            const CriticStatistics s =
                self.learner->epoch(rollout, order.data(), static_cast<int>(order.shape(0)),
                                    static_cast<int>(order.shape(1)), learning_rate, max_grad_norm, threads);
            return std::vector<double>{s.loss, s.mean, s.gradient_norm};
          },
          nb::kw_only(), array("inputs"), array("choices"), array("returns"), array("order"), "learning_rate"_a,
          "max_grad_norm"_a, "threads"_a,
          "Makes one update for each row of order, int64[minibatches, size]: values of choices int64[rows] come closer to returns\n"
          "float32[rows]. Returns averages: half the squared error, values, gradient's norm.");
}
