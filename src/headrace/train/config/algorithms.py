"""The record of each of Headrace's algorithms: its own settings, what it can do, and its presets.

An algorithm is this record and a class in `headrace.train.algorithms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.train.config.fields import CNN, NEVER, ONE_AGENT, WORKERS, setting
from headrace.train.config.presets import A2C, PPO, PQN
from headrace.train.config.replay import ActorCriticConfig, NoisyActorConfig, ReplayConfig
from headrace.train.config.replay_presets import CROSSQ, DDPG, DQN, SAC, TD3
from headrace.train.config.rollout import ConvolutionConfig, EpsilonConfig, GradientClipConfig, RolloutConfig


@dataclass(frozen=True)
class PPOConfig(RolloutConfig):
    """Settings of PPO; with workers, whose rollouts are of slightly older policies, advantages are V-trace's."""

    has_workers = True
    presets = PPO

    minibatch_size: int = setting(
        256, "Samples in one gradient step; all of them, if there are fewer.", low=1, speed=True
    )
    epochs: int = setting(4, "Passes over a rollout.", low=1, speed=True)
    clip_range: float = setting(0.2, "The probability ratio is clipped to 1 ± this.", above=0, scheduled=True)
    value_clip_range: float | None = setting(
        None, "Clip the change of the value in the value loss to ± this; None does not.", above=0
    )
    target_kl: float | None = setting(
        None,
        "End the epochs of an iteration once the approximate KL divergence from the policy that acted is above this; "
        "None never does.",
        above=0,
        speed=True,
    )
    rollout_slots: int = setting(
        1,
        "Rollouts of each sampler that may wait for the learner, beside the one it learns from. More of them even out "
        "different speeds, but make the policy that acted older; a sampler without a free one waits.",
        low=1,
        group="workers",
        needs=(WORKERS,),
        shared=True,
    )
    rho_clip: float = setting(
        1.0,
        "V-trace: largest importance weight of a step, ρ̄. A lower one moves the critic towards the values of the "
        "policy that acted.",
        above=0,
        group="workers",
        needs=(WORKERS,),
    )
    trace_clip: float = setting(
        1.0,
        "V-trace: largest weight, c̄, with which later steps count for the values of earlier ones.",
        above=0,
        group="workers",
        needs=(WORKERS,),
    )


@dataclass(frozen=True)
class A2CConfig(RolloutConfig):
    """Settings of A2C."""

    presets = A2C


@dataclass(frozen=True)
class PQNConfig(GradientClipConfig, ConvolutionConfig, EpsilonConfig):
    """Settings of PQN."""

    action_kinds = ("discrete",)
    network_kinds = ("mlp", "cnn", "own")
    presets = PQN

    minibatch_size: int = setting(
        256, "Samples in one gradient step; all of them, if there are fewer.", low=1, speed=True
    )
    epochs: int = setting(2, "Passes over a rollout.", low=1, speed=True)
    q_lambda: float = setting(
        0.65, "Decay of Q(λ)'s targets: 0 trusts the action values after one step, 1 the returns.", low=0, high=1
    )

    @property
    def gae_lambda(self) -> float:
        """The decay λ of the advantages; the sum of an advantage and the value of the best action is Q(λ)'s target."""
        return self.q_lambda


@dataclass(frozen=True)
class DQNConfig(ReplayConfig, GradientClipConfig, ConvolutionConfig, EpsilonConfig):
    """Settings of DQN."""

    action_kinds = ("discrete",)
    network_kinds = ("mlp", "cnn", "own")
    presets = DQN

    double: bool = setting(
        True, "Choose the action of a target by the learning network, not by the target network (double Q-learning)."
    )
    dueling: bool = setting(
        False,
        "Learn a state's value and its actions' advantages separately, each from half of a last hidden layer twice as "
        "wide.",
        speed=True,
    )
    standardise_pixels: bool = setting(
        False,
        "Give every pixel mean 0 and standard deviation 1, by statistics that are taken once, before the first update.",
        needs=(CNN,),
        given=("trunk", "strided"),
        speed=True,
    )
    loss: Literal["huber", "squared"] = setting(
        "huber", "Loss of an action value's error e: squared, e²; huber, e²/2 up to |e| = 1 and linear beyond."
    )
    target_rate: float = setting(
        0.005,
        "Step of the target network towards the learning one after each update; 1 copies it.",
        low=0,
        high=1,
        group="learning",
        given=("target_update", 0),
    )
    target_update: int = setting(
        0,
        "Updates after which the network is copied into the target network; 0 moves that by target_rate after each "
        "update.",
        low=0,
    )
    prioritised: bool = setting(
        False,
        "Draw transitions in proportion to their errors to the power of priority_exponent, and weigh them by (1 / "
        "their probability) to the power of importance_exponent.",
        needs=(ONE_AGENT,),
        given=("hindsight", 0),
        speed=True,
    )
    priority_exponent: float = setting(
        0.5,
        "Exponent of the errors in the probability of being drawn; 0 draws uniformly.",
        low=0,
        high=1,
        needs=(ONE_AGENT,),
        given=("prioritised", True),
    )
    importance_exponent: float = setting(
        0.4,
        "Exponent of the importance weights at first; it grows to 1, the full correction of the bias, over the run.",
        low=0,
        high=1,
        needs=(ONE_AGENT,),
        given=("prioritised", True),
    )

    @property
    def priorities(self) -> tuple[float, float] | None:
        """Exponents of priorities and of importance weights; None where transitions are drawn uniformly."""
        return (self.priority_exponent, self.importance_exponent) if self.prioritised else None


@dataclass(frozen=True)
class SACConfig(ActorCriticConfig):
    """Settings of SAC."""

    presets = SAC

    initial_temperature: float = setting(
        1.0, "Weight of the entropy at the start; then it is learnt with learning_rate.", above=0
    )
    target_entropy: float | None = setting(
        None,
        "Entropy, in nats, that the temperature is adjusted to; None for minus the number of an action's dimensions.",
    )


@dataclass(frozen=True)
class TD3Config(NoisyActorConfig):
    """Settings of TD3."""

    presets = TD3

    policy_delay: int = setting(
        2, "Updates of the critics for each update of the actor and of the targets.", low=1, speed=True
    )
    target_noise: float = setting(0.2, "Standard deviation of the noise on the actions in the critics' targets.", low=0)
    target_noise_clip: float = setting(0.5, "Bound of that noise, ±.", low=0)


@dataclass(frozen=True)
class DDPGConfig(NoisyActorConfig, GradientClipConfig):
    """Settings of DDPG."""

    presets = DDPG


@dataclass(frozen=True)
class CrossQConfig(SACConfig):
    """Settings of CrossQ."""

    network_kinds = ("mlp", "cnn")
    presets = CROSSQ

    target_rate: float = setting(0.0, "Not used: there are no target networks.", needs=(NEVER,))
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
