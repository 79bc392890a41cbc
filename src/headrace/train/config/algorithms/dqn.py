"""Settings, presets and capabilities of DQN."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from headrace.train.config.algorithms.dqn_presets import dqn_presets
from headrace.train.config.algorithms.epsilon import EpsilonConfig
from headrace.train.config.fields import WORKERS, Use, setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities
from headrace.train.config.replay import ReplayConfig
from headrace.train.config.rollout import ConvolutionConfig, GradientClipConfig

_WITH_WORKERS = Use(ways=(WORKERS,))
_PRIORITISED = Use(ways=(WORKERS,), given=("prioritised", True))


@dataclass(frozen=True)
class DQNConfig(ReplayConfig, GradientClipConfig, ConvolutionConfig, EpsilonConfig):
    """Settings of DQN."""

    double: bool = setting(True, "Choose the action that a target values by the network, not by the target network.")
    dueling: bool = setting(
        False,
        "Learn a state's value and its actions' advantages apart, each from half of a last hidden layer twice as wide.",
    )
    standardise_pixels: bool = setting(
        False,
        "Give every pixel mean 0 and standard deviation 1, by what was seen before the first update; then they stay as "
        "they are.",
        use=Use(ways=(WORKERS,), networks=("cnn",), given=("trunk", "strided")),
    )
    loss: Literal["huber", "squared"] = setting(
        "huber", "Of an error e of an action's value: e²; or Huber's, e²/2 up to 1 and a straight line from there."
    )
    target_rate: float = setting(
        0.005,
        "How far the target network goes towards the learning one after each update, 1 all the way.",
        low=0,
        high=1,
        group="learning",
        use=Use(given=("target_update", 0)),
    )
    target_update: int = setting(
        0,
        "Updates after which the network is copied into the target network; 0 moves it by target_rate after each.",
        low=0,
    )
    prioritised: bool = setting(
        False,
        "Learn more often from what was badly predicted: transitions are drawn by their error to the power of "
        "priority_exponent, and weigh (1 / their probability) to the power of importance_exponent.",
        use=_WITH_WORKERS,
    )
    priority_exponent: float = setting(
        0.5, "How much errors count in drawing: 0 not at all.", low=0, high=1, use=_PRIORITISED
    )
    importance_exponent: float = setting(
        0.4,
        "How much of the bias from drawing so is taken back at first; it grows to all, 1, over the run.",
        low=0,
        high=1,
        use=_PRIORITISED,
    )

    @property
    def priorities(self) -> tuple[float, float] | None:
        """Exponents of priority and of importance, where transitions are drawn by their errors; None where not."""
        return (self.priority_exponent, self.importance_exponent) if self.prioritised else None

    def followed(self, times: float, limited: float) -> dict[str, Any]:
        """As `ReplayConfig.followed`; ``target_update`` is divided by ``times``."""
        return super().followed(times, limited) | {"target_update": math.ceil(self.target_update / times)}


class DQNDeclaration:
    """What DQN declares, see `Algorithm`."""

    settings = DQNConfig
    capabilities = Capabilities(
        replay=True,
        actions=("discrete",),
        networks=("mlp", "cnn", "own"),
        masks=False,
        workers=True,
        presets=(DEFAULT_PRESET, "fast"),
    )

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        """Returns the settings with which a run of this task begins."""
        return dqn_presets(task, preset)
