"""Settings of algorithms that learn from rollouts, and those that some algorithms of both families share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.train.config.fields import IN_TURN, Use, setting
from headrace.train.config.settings import Config


@dataclass(frozen=True)
class GradientClipConfig(Config):
    """Settings of algorithms that clip gradients."""

    max_grad_norm: float = setting(
        0.5,
        "Largest global norm of the gradients; larger ones are scaled down to it.",
        above=0,
        group="learning",
        scheduled=True,
    )


@dataclass(frozen=True)
class ConvolutionConfig(Config):
    """Settings of algorithms that may have a CNN."""

    bf16: bool = setting(
        False,
        "Run the CNN's matrix products in bfloat16, unless a CPU cannot; parameters, losses and updates stay float32.",
        group="network",
        use=Use(networks=("cnn",)),
        speed=True,
    )
    trunk: Literal["nature", "strided"] = setting(
        "nature",
        "The CNN for images of at least 36 x 36; others have a small one. nature: the Nature-CNN; strided: filters "
        "of 6 x 6 with stride 3, then of 3 x 3 with stride 2, which makes images of 42 x 42 cheap.",
        group="network",
        use=Use(networks=("cnn",)),
        speed=True,
    )


@dataclass(frozen=True)
class RolloutConfig(GradientClipConfig, ConvolutionConfig):
    """Settings of an algorithm that learns from rollouts."""

    shared: bool = setting(
        False,
        "One perceptron for actor and critic of an mlp, instead of one for each.",
        group="network",
        use=Use(networks=("mlp",)),
        speed=True,
    )
    log_std_init: float = setting(
        0.0,
        "Initial logarithm of a Gaussian policy's standard deviation, in units of half the action range.",
        group="network",
        use=Use(continuous=True),
    )
    gae_lambda: float = setting(
        0.95,
        "Decay of generalised advantage estimation: 0 trusts the critic, 1 the returns.",
        low=0,
        high=1,
        group="learning",
    )
    value_coef: float = setting(
        1.0, "Weight of the value loss, half the mean squared error.", group="learning", scheduled=True
    )
    normalise_values: bool = setting(
        False,
        "Let the critic predict values of mean 0 and standard deviation 1, by running statistics of the "
        "returns, so that its errors do not depend on the scale of the rewards.",
        group="learning",
    )
    entropy_coef: float = setting(0.0, "Weight of the entropy bonus.", group="learning", scheduled=True)
    curiosity: float = setting(
        0.0,
        "Weight of an exploration bonus (random network distillation): the error of a network that learns "
        "to predict a random one, divided by the running standard deviation of the bonus's discounted sums. "
        "0 gives none.",
        low=0,
        group="exploration",
        use=Use(ways=(IN_TURN,), given=("devices", ())),
        speed=True,
    )
    normalise_advantages: bool = setting(
        True, "Give the advantages of every minibatch mean 0 and standard deviation 1.", group="learning"
    )
