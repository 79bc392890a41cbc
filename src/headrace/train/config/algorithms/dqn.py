"""Settings, presets and capabilities of DQN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from headrace.train.config.algorithms.dqn_presets import dqn_presets
from headrace.train.config.algorithms.epsilon import EpsilonConfig
from headrace.train.config.fields import Use, setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities
from headrace.train.config.replay import STEPS, ReplayConfig
from headrace.train.config.rollout import ConvolutionConfig, GradientClipConfig

_PRIORITISED = Use(given=("prioritised", True), alone=True)


@dataclass(frozen=True)
class DQNConfig(ReplayConfig, GradientClipConfig, ConvolutionConfig, EpsilonConfig):
    """Settings of DQN."""

    double: bool = setting(
        True, "Choose the action of a target by the learning network, not by the target network (double Q-learning)."
    )
    dueling: bool = setting(
        False,
        "Learn a state's value and its actions' advantages separately, each from half of a last hidden "
        "layer twice as wide.",
        speed=True,
    )
    standardise_pixels: bool = setting(
        False,
        "Give every pixel mean 0 and standard deviation 1, by statistics that are taken once, before the first update.",
        use=Use(networks=("cnn",), given=("trunk", "strided")),
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
        use=Use(given=("target_update", 0)),
    )
    target_update: int = setting(
        0,
        "Updates after which the network is copied into the target network; 0 moves that by target_rate "
        "after each update.",
        low=0,
    )
    prioritised: bool = setting(
        False,
        "Draw transitions in proportion to their errors to the power of priority_exponent, and weigh them "
        "by (1 / their probability) to the power of importance_exponent.",
        use=STEPS,
        speed=True,
    )
    priority_exponent: float = setting(
        0.5,
        "Exponent of the errors in the probability of being drawn; 0 draws uniformly.",
        low=0,
        high=1,
        use=_PRIORITISED,
    )
    importance_exponent: float = setting(
        0.4,
        "Exponent of the importance weights at first; it grows to 1, the full correction of the bias, over the run.",
        low=0,
        high=1,
        use=_PRIORITISED,
    )

    @property
    def priorities(self) -> tuple[float, float] | None:
        """Exponents of priorities and of importance weights; None where transitions are drawn uniformly."""
        return (self.priority_exponent, self.importance_exponent) if self.prioritised else None


class DQNDeclaration:
    """The declaration of DQN; see `Algorithm`."""

    settings = DQNConfig
    capabilities = Capabilities(
        replay=True,
        actions=("discrete",),
        networks=("mlp", "cnn", "own"),
        workers=True,
        presets=(DEFAULT_PRESET, "fast"),
    )

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        return dqn_presets(task, preset)
