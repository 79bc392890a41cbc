"""The settings of DQN, and what it can do, and settings to begin with."""

from __future__ import annotations

from typing import Literal

from headrace.train.algorithms.presets import with_families
from headrace.train.settings.algorithm import DEFAULT_PRESET, Settings
from headrace.train.settings.fields import record, setting
from headrace.train.settings.networks import Convolutions, Pixels
from headrace.train.settings.replays import REPLAYS, TargetRate
from headrace.train.settings.rollouts import Clipping, Exploration
from headrace.train.settings.when import ONE_AGENT, given


@record("DQN")
class DQNSettings:
    """The network, its loss and its targets."""

    double: bool = setting(
        True, "Choose the action of a target by the learning network, not by the target network (double Q-learning)."
    )
    dueling: bool = setting(
        False,
        "Learn a state's value and its actions' advantages separately, each from half of a last hidden layer twice as "
        "wide.",
        speed=True,
    )
    loss: Literal["huber", "squared"] = setting(
        "huber", "Loss of an action value's error e: squared, e²; huber, e²/2 up to |e| = 1 and linear beyond."
    )
    target_update: int = setting(
        0,
        "Updates after which the network is copied into the target network; 0 moves that by target_rate after each "
        "update.",
        low=0,
    )


@record("learning", given("target_update", 0))
class Following:
    """A target network that follows the learning one."""

    target_rate: float = setting(
        0.005, "Step of the target network towards the learning one after each update; 1 copies it.", low=0, high=1
    )


@record("DQN", ONE_AGENT, given("hindsight", 0))
class Prioritised:
    """A replay that is drawn from by priorities."""

    prioritised: bool = setting(
        False,
        "Draw transitions in proportion to their errors to the power of priority_exponent, and weigh them by (1 / "
        "their probability) to the power of importance_exponent.",
        speed=True,
    )


@record("DQN", ONE_AGENT, given("prioritised"))
class Priorities:
    """The exponents of priorities."""

    priority_exponent: float = setting(
        0.5, "Exponent of the errors in the probability of being drawn; 0 draws uniformly.", low=0, high=1
    )
    importance_exponent: float = setting(
        0.4,
        "Exponent of the importance weights at first; it grows to 1, the full correction of the bias, over the run.",
        low=0,
        high=1,
    )


# fmt: off
# For observations that are vectors, with perceptrons.
_DQN: Settings = {
    "num_envs": 8, "num_steps": 4, "hidden": (128, 128), "activation": "relu", "minibatch_size": 128,
    "learning_rate": 1e-3, "anneal_learning_rate": False, "max_grad_norm": 10.0, "matmul_precision": "medium",
    "loss": "squared", "target_rate": 0.02, "replay_size": 100_000, "replay_ratio": 0.25,
}
PRESETS = with_families("dqn", {DEFAULT_PRESET: {"": _DQN}})
# fmt: on

DQN = REPLAYS.extended(
    Clipping, Convolutions, Exploration, DQNSettings, Pixels, Following, Prioritised, Priorities,
    without=(TargetRate,), action_kinds=("discrete",), network_kinds=("mlp", "cnn", "own"), presets=PRESETS,
)  # fmt: skip
