"""Soft actor-critic: a stochastic actor that is rewarded for its entropy, too, as much as a temperature says.

The temperature is learnt, so that the entropy is what was asked for on average; of two critics the lower counts.

Source: Haarnoja et al. 2018 (arXiv:1812.05905, automatic temperature; arXiv:1801.01290); the logarithm of the
temperature is what its gradient step acts on, as in the authors' own code. Pardo et al. 2018 (arXiv:1712.00378) for
time limits.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.actor_critic import ActorCritic
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.config.settings import Config
from headrace.train.modules.distributions import SquashedGaussian
from headrace.train.modules.layers import gradient_of
from headrace.train.modules.network import input_size
from headrace.train.modules.perceptron import Perceptron
from headrace.train.modules.twin_critic import TwinCritic
from headrace.train.storage.device_replay import Transitions


class Temperature(nn.Module):
    """The weight of the entropy, as its logarithm."""

    def __init__(self, initial: float):
        super().__init__()
        self.log = nn.Parameter(torch.tensor([math.log(initial)]))


class SoftActorCritic(ActorCritic):
    """An actor that says the parameters of a `SquashedGaussian`, twin critics, and the temperature."""

    def __init__(self, inputs: int, actions: int, config: Config):
        actor = Perceptron(inputs, 2 * actions, config.hidden, config.activation)
        super().__init__(actor, TwinCritic(inputs + actions, config.hidden, config.activation))
        self.temperature = Temperature(config.initial_temperature)


class SAC(OffPolicy):
    """A stochastic policy π, its twin critics Q, their targets Q', and the temperature α.

    Attributes:
        network: a `SoftActorCritic`.
        target_entropy: what the actor's entropy is to be, in nats.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network is to be another than an MLP.
    """

    critic_statistics = ("critic_loss", "q_mean")
    actor_statistics = ("actor_loss", "entropy", "temperature")
    statistics = (*critic_statistics, *actor_statistics)
    target_parts = ("critic",)

    network: SoftActorCritic
    distribution: SquashedGaussian

    def _make(self) -> tuple[Any, nn.Module]:
        config, agent_group = self.config, self.agent_group
        distribution = SquashedGaussian(agent_group.action, self.device)
        actions = distribution.noise_size
        self.target_entropy = -float(actions) if config.target_entropy is None else config.target_entropy
        return distribution, SoftActorCritic(input_size(agent_group.observation), actions, config)

    @torch.inference_mode()
    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``½ Σ mean((Q(s, a) - y)²)`` over both, ``y = r + discount · (min Q'(s', a') - α log π(a'|s'))``."""
        params = self.network.actor(batch.following)
        actions, log_prob, _ = self.distribution.sample_with_log_prob(params, self.noise(len(params)))
        return self._improve_critics(batch, rates, actions, log_prob)

    @torch.inference_mode()
    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Descend ``mean(α log π(a|s) - min Q(s, a))``; with α, ``-mean(log π + target entropy) · log α``."""
        saved = self.network.actor.forward_saving(batch.inputs)
        drawn = self.distribution.sample_with_log_prob(saved[-1], self.noise(len(batch.inputs)))
        return self._improve_actor(batch, rates, saved, drawn)

    @torch.inference_mode()
    def improve_with(self, batch: Transitions, rates: UpdateRates, actor: bool) -> Tensor:
        """As `improve`: the actor looks at inputs and following ones at once, as it is the same for both halves."""
        rows = len(batch.inputs)
        saved = self.network.actor.forward_saving(torch.cat((batch.inputs, batch.following)))
        drawn = self.distribution.sample_with_log_prob(saved[-1], self.noise(2 * rows))
        (now, after), (log_prob, log_prob_after) = (both.split(rows) for both in drawn[:2])
        critics = self._improve_critics(batch, rates, after, log_prob_after)
        drawn = now, log_prob, tuple(both[:rows] for both in drawn[2])
        actor_measured = self._improve_actor(batch, rates, [both[:rows] for both in saved], drawn)
        self.move_targets()
        return torch.cat((critics, actor_measured))

    def _improve_critics(self, batch: Transitions, rates: UpdateRates, actions: Tensor, log_prob: Tensor) -> Tensor:
        """Given a' and log π(a'|s')."""
        critic, target = self.network.critic, self.targets.critic
        after = target(target.joined(batch.following, actions)).amin(0)
        after.addcmul_(self.network.temperature.log.exp(), log_prob, value=-1.0)
        wanted = torch.addcmul(batch.rewards, batch.discounts, after)
        loss, mean = critic.fit_into_gradients(critic.joined(batch.inputs, batch.actions), wanted, batch.weights)
        self._optimisers["critic"].step_unclipped(rates.critic_learning_rate)
        return torch.stack((loss, mean))

    def _improve_actor(self, batch: Transitions, rates: UpdateRates, saved: list[Tensor], drawn: Any) -> Tensor:
        """Given the actor's activations, and a, log π(a|s) and what its gradient needs."""
        actor, critic, rows = self.network.actor, self.network.critic, len(batch.inputs)
        actions, log_prob, chosen = drawn
        values, critic_saved = critic.forward_saving(critic.joined(batch.inputs, actions))
        lower = values.amin(0)
        d_values = (values == lower) * (-1 / rows)
        d_actions = critic.input_gradient(critic_saved, d_values, batch.inputs.shape[1])
        log_temperature = self.network.temperature.log
        temperature = log_temperature.exp()
        actor.backward_into_gradients(saved, self.distribution.gradient(chosen, d_actions, temperature * (1 / rows)))
        self._optimisers["actor"].step_unclipped(rates.learning_rate)
        entropy = log_prob.mean(0, keepdim=True).neg_()
        torch.sub(entropy, self.target_entropy, out=gradient_of(log_temperature))
        self._optimisers["temperature"].step_unclipped(rates.learning_rate)
        loss = torch.addcmul(lower.mean(), temperature, entropy).neg_()
        return torch.cat((loss, entropy, temperature))
