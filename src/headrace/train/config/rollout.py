"""Settings of algorithms that learn from rollouts, and those that some algorithms of both families share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.train.config.fields import CNN, CONTINUOUS, IN_TURN, MLP, setting
from headrace.train.config.settings import Config


@dataclass(frozen=True)
class GradientClipConfig(Config, group="learning"):
    """Settings of algorithms that clip gradients."""

    max_grad_norm: float = setting(
        0.5, "Largest global norm of the gradients; larger ones are scaled down to it.", above=0, scheduled=True
    )


@dataclass(frozen=True)
class ConvolutionConfig(Config, group="network"):
    """Settings of algorithms that may have a CNN."""

    bf16: bool = setting(
        False,
        "Run the CNN's matrix products in bfloat16, unless a CPU cannot; parameters, losses and updates stay float32.",
        needs=(CNN,),
        speed=True,
    )
    trunk: Literal["nature", "strided"] = setting(
        "nature",
        "The CNN for images of at least 36 x 36; others have a small one. nature: the Nature-CNN; strided: filters of "
        "6 x 6 with stride 3, then of 3 x 3 with stride 2, which makes images of 42 x 42 cheap.",
        needs=(CNN,),
        speed=True,
    )


@dataclass(frozen=True)
class EpsilonConfig(Config, group="exploration"):
    """The share of random actions during a run: linear in the first part of it, then constant."""

    epsilon_start: float = setting(1.0, "Share of random actions at the start.", low=0, high=1)
    epsilon_end: float = setting(0.05, "Share of random actions at the end.", low=0, high=1)
    epsilon_fraction: float = setting(
        0.1, "Share of total_steps over which epsilon falls from epsilon_start to epsilon_end.", above=0
    )

    def epsilon_at(self, step: int) -> float:
        progress = min(1.0, step / (self.epsilon_fraction * self.total_steps))
        return self.epsilon_start + progress * (self.epsilon_end - self.epsilon_start)


@dataclass(frozen=True)
class RolloutConfig(GradientClipConfig, ConvolutionConfig, group="learning"):
    """Settings of an algorithm that learns from rollouts."""

    shared: bool = setting(
        False,
        "One perceptron for actor and critic of an mlp, instead of one for each.",
        group="network",
        needs=(MLP,),
        speed=True,
    )
    log_std_init: float = setting(
        0.0,
        "Initial logarithm of a Gaussian policy's standard deviation, in units of half the action range.",
        low=-20,
        high=10,
        group="network",
        needs=(CONTINUOUS,),
    )
    gae_lambda: float = setting(
        0.95, "Decay of generalised advantage estimation: 0 trusts the critic, 1 the returns.", low=0, high=1
    )
    decisions_only: bool = setting(
        False,
        "In games by turns: learn from the steps in which an agent has a choice alone, each with all that follows "
        "until its next one, as action masks with a single action say. Values of waiting are then not learnt.",
        needs=(IN_TURN,),
    )
    random_moves: int = setting(
        0,
        "With decisions_only: most decisions that are made at random for each player at the start of a game, so that "
        "games differ; their number is drawn for each game. They are not learnt from.",
        low=0,
        needs=(IN_TURN,),
        given=("decisions_only", True),
    )
    value_coef: float = setting(1.0, "Weight of the value loss, half the mean squared error.", low=0, scheduled=True)
    normalise_values: bool = setting(
        False,
        "Let the critic predict values of mean 0 and standard deviation 1, by running statistics of the returns, so "
        "that its errors do not depend on the scale of the rewards.",
    )
    entropy_coef: float = setting(0.0, "Weight of the entropy bonus.", low=0, scheduled=True)
    curiosity: float = setting(
        0.0,
        "Weight of an exploration bonus (random network distillation): the error of a network that learns to predict a "
        "random one, divided by the running standard deviation of the bonus's discounted sums. 0 gives none.",
        low=0,
        group="exploration",
        needs=(IN_TURN,),
        given=("devices", ()),
        speed=True,
    )
    normalise_advantages: bool = setting(
        True, "Give the advantages of every minibatch mean 0 and standard deviation 1."
    )
