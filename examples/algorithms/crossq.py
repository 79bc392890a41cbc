"""CrossQ:  headrace train HalfCheetah-v5 --algo examples/algorithms/crossq.py:CrossQ

Soft actor-critic without target networks. Each critic evaluates states and following states in one joint batch, so that
the same statistics normalise both; critics and actor are batch-normalised, at their inputs and after each hidden layer.
That makes learning from the critics' own values stable, and learning needs a fraction of the updates::

    Q, Q'  = Q([s, s'], [a, a'])                         one batch, its own statistics; a' drawn from π(s')
    y      = r + γ · d · (min Q' - α · log π(a'|s'))     no gradient through Q'
    critics: ½ Σ mean((Q - y)²)
    actor, temperature: as of SAC; the critics judge by running statistics

Networks have two methods. ``forward``, for acting and for critics' values of new actions, uses running statistics, so
that a row's output does not depend on other rows. ``of_batch``, for learning, uses the batch's statistics, and updates
the running ones. These are parameters without gradients, and therefore in the vector of a network's parameters
(`headrace.train.algorithms.optimiser.flatten`): they are published, copied and saved with it.

Of the presets, ``default`` has narrower critics than the paper; ``fast`` is for few cores; ``published`` has the
paper's settings, with critics of width 2,048.

Sources: Bhatt et al. 2024 (arXiv:1902.05605); Haarnoja et al. 2018 (arXiv:1812.05905) for the rest of the losses;
Pardo et al. 2018 (arXiv:1712.00378) for time limits; Ioffe & Szegedy 2015 (arXiv:1502.03167) and Ioffe 2017
(arXiv:1702.03275) for the normalisation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac.sac import SoftActorCritic, SoftOffPolicy
from headrace.train.algorithms.sac.settings import SAC
from headrace.train.modules.actor_critic import make_trunk
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings
from headrace.train.settings.fields import record, setting
from headrace.train.settings.replays import TargetRate
from headrace.train.storage.transitions import Transitions

MOST_SCALE, MOST_SHIFT = 3.0, 5.0
"""bounds of the corrections, r_max and d_max"""


@dataclass(frozen=True)
class Renorm:
    """The settings of a `BatchRenorm`.

    Attributes:
        momentum: weight of the previous running statistics at each batch.
        warm_up: number of batches that are normalised by their own statistics alone; outputs of later batches are
            corrected towards those of the running statistics.
        epsilon: what is added to variances.
    """

    momentum: float = 0.99
    warm_up: int = 100_000
    epsilon: float = 1e-3


# -- settings --


@record("CrossQ")
class CrossQSettings:
    """Wide critics without targets, normalised by their batches."""

    policy_delay: int = setting(3, "Updates of the critics for each update of the actor.", low=1, speed=True)
    critic_hidden: tuple[int, ...] = setting(
        (), "Widths of the critics' hidden layers; none for those of hidden.", low=1, speed=True
    )
    adam_beta: float = setting(0.5, "Adam's decay of the mean gradient, β₁.", low=0, high=0.9999)
    batch_momentum: float = setting(
        0.99, "Share of its running statistics that batch normalisation keeps at each update.", low=0, high=1
    )
    renorm_after: int = setting(
        100_000,
        "Updates after which batches are corrected towards running statistics (batch renormalisation); before, they "
        "are normalised by their own statistics alone.",
        low=0,
    )


# fmt: off
# The settings of the paper's experiments: critics of 2,048 units, an update for every step.
_CROSSQ: Settings = {
    "total_steps": 1_000_000, "num_envs": 1, "num_steps": 1, "hidden": (256, 256), "critic_hidden": (2048, 2048),
    "activation": "relu", "minibatch_size": 256, "learning_rate": 1e-3, "critic_learning_rate": 1e-3,
    "anneal_learning_rate": False, "adam_epsilon": 1e-8, "learning_starts": 5000, "replay_ratio": 1.0,
    "actor_device": "",
}
PRESETS: Presets = {
    # For few steps: narrower critics and several environments, both of which save time.
    DEFAULT_PRESET: {"": _CROSSQ | {"num_envs": 8, "num_steps": 8, "critic_hidden": (512, 512)}},
    # For few seconds, most of which are updates: few updates, targets of three steps, and a learning rate that ends
    # at 0.
    "fast": {"": _CROSSQ | {
        "total_steps": 300_000, "num_envs": 32, "num_steps": 8, "critic_hidden": (), "anneal_learning_rate": True,
        "replay_ratio": 1 / 32, "n_step": 3, "torch_threads": 1,
    }},
    "published": {"": _CROSSQ},
}
# fmt: on

CROSSQ = SAC.extended(CrossQSettings, without=(TargetRate,), network_kinds=("mlp", "cnn"), presets=PRESETS)


# -- networks --


class BatchRenorm(nn.Module):
    """A layer that standardises the columns of a batch [B, D], and scales and shifts them by learnt parameters.

    Attributes:
        mean, variance: running statistics, float32[D].
        batches: number of batches that updated them, float32[].
    """

    def __init__(self, columns: int, how: Renorm):
        super().__init__()
        self.how = how
        self.weight, self.bias = nn.Parameter(torch.ones(columns)), nn.Parameter(torch.zeros(columns))
        self.mean = nn.Parameter(torch.zeros(columns), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(columns), requires_grad=False)
        self.batches = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns [B, D], by running statistics."""
        scale = self.weight * (self.variance + self.how.epsilon).rsqrt()
        return torch.addcmul(self.bias - self.mean * scale, x, scale)

    def of_batch(self, x: Tensor) -> Tensor:
        """Returns [B, D], by this batch's statistics, which update the running ones."""
        # the mean and 1 / the deviation, which are returned as well, are constants for autograd
        epsilon = self.how.epsilon
        standardised, mean, inverse = torch.native_batch_norm(x, None, None, None, None, True, 0.0, epsilon)
        with torch.no_grad():
            scale, shift = self._corrections(mean, inverse)
            self.mean.lerp_(mean, 1 - self.how.momentum)
            self.variance.lerp_(inverse.pow(-2) - epsilon, 1 - self.how.momentum)
            self.batches += 1
        return torch.addcmul(self.bias + self.weight * shift, standardised, self.weight * scale)

    def _corrections(self, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
        """Returns r and d, float32[D], which correct batch statistics towards running ones, within bounds."""
        running = (self.variance + self.how.epsilon).rsqrt()
        warm = self.batches >= self.how.warm_up
        scale = (running / inverse).clamp(1 / MOST_SCALE, MOST_SCALE)
        shift = ((mean - self.mean) * running).clamp(-MOST_SHIFT, MOST_SHIFT)
        return torch.where(warm, scale, 1.0), torch.where(warm, shift, 0.0)


class NormalisedPerceptron(nn.Module):
    """A perceptron with a `BatchRenorm` before its first layer and after each activation; layers are `nn.Linear`.

    Args:
        activation: ``"relu"`` or ``"tanh"``, of the hidden layers.
    """

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...], activation: str, how: Renorm):
        super().__init__()
        self._activation = torch.relu if activation == "relu" else torch.tanh
        widths = (inputs, *hidden)
        self.norms = nn.ModuleList(BatchRenorm(width, how) for width in widths)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise((*widths, outputs)))

    def forward(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by running statistics."""
        first, *others = zip(self.norms, self.layers, strict=True)
        x = first[1](first[0](x))
        for norm, layer in others:
            x = layer(norm(self._activation(x)))
        return x

    def of_batch(self, x: Tensor) -> Tensor:
        """Maps inputs [B, D] to outputs [B, outputs], by this batch's statistics, which update the running ones."""
        first, *others = zip(self.norms, self.layers, strict=True)
        x = first[1](first[0].of_batch(x))  # type: ignore[operator]
        for norm, layer in others:
            x = layer(norm.of_batch(self._activation(x)))  # type: ignore[operator]
        return x


class NormalisedCritics(nn.Module):
    """Two critics of inputs and actions, each a `NormalisedPerceptron`."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], activation: str, how: Renorm):
        super().__init__()
        self.critics = nn.ModuleList(NormalisedPerceptron(inputs, 1, hidden, activation, how) for _ in range(2))

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [2, B], by running statistics."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic(x).squeeze(1) for critic in self.critics])

    def of_batch(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Maps inputs [B, D] and actions [B, A] to values [2, B], by the statistics of this batch."""
        x = torch.cat((inputs, actions), 1)
        return torch.stack([critic.of_batch(x).squeeze(1) for critic in self.critics])  # type: ignore[operator]


def running_statistics(module: nn.Module) -> Iterable[Tensor]:
    """The statistics that batches update, which processes that train together share."""
    for each in module.modules():
        if isinstance(each, BatchRenorm):
            yield from (each.mean.data, each.variance.data)


# -- the algorithm --


class CrossQ(SoftOffPolicy):
    """A stochastic policy π, its critics Q, and the temperature α; there are no targets.

    The actor's loss uses the critics' running statistics, since their own batches also contain actions of earlier
    policies.

    Attributes:
        network: a `SoftActorCritic` of normalised perceptrons.

    Raises:
        OptionError: the actions are not continuous and bounded, or the network does not fit.
    """

    settings = CROSSQ
    target_parts = ()

    def make(self) -> tuple[Any, nn.Module]:
        config = self.config
        trunk, inputs = make_trunk(self.agent_group.observation, config.network, config.trunk, config.bf16)
        self.actor_every = config.policy_delay
        self.betas = (config.adam_beta, 0.999)
        distribution = self.make_distribution()
        actions = distribution.noise_size
        how = config.activation, Renorm(config.batch_momentum, config.renorm_after)
        actor = NormalisedPerceptron(inputs, 2 * actions, config.hidden, *how)
        critic = NormalisedCritics(inputs + actions, config.critic_hidden or config.hidden, *how)
        return distribution, SoftActorCritic(actor, critic, config.initial_temperature, trunk)

    def critic_losses(self, batch: Transitions) -> Losses:
        """Returns ``½ Σ mean((Q(s, a) - y)²)`` over the critics.

        Here ``y = r + discount · (min Q(s', a') - α log π(a'|s'))``. Q(s, a) and Q(s', a') are computed in one batch;
        there is no gradient through the latter.
        """
        with torch.no_grad():
            next_actions, next_log_prob = self.sample(self.network.actor(batch.next_observations))
            alpha = self.network.temperature.log.exp()
        rows = len(batch.rewards)
        both = torch.cat((batch.inputs, batch.next_observations)), torch.cat((batch.actions, next_actions))
        values, next_q = self.network.critic.of_batch(*both).split(rows, 1)
        target = batch.rewards + batch.discounts * (next_q.detach().amin(0) - alpha * next_log_prob)
        loss = batch.mean((values - target).square()).sum() / 2
        return Losses({"critic": loss}, (loss, values.mean()))

    def actor_params(self, batch: Transitions) -> Tensor:
        return self.network.actor.of_batch(batch.inputs)

    def improve(self, batch: Transitions, rates: UpdateRates, actor: bool = True, critics: bool = True) -> Tensor:
        """Makes an update, as `OffPolicy.improve`, and averages running statistics over all training processes."""
        measured = super().improve(batch, rates, actor, critics)
        if self.process_group is not None:
            for each in (*running_statistics(self.network), *running_statistics(self.targets)):
                self.process_group.average(each, len(batch.rewards))
        return measured
