"""The settings of PQN, and what it can do, and settings to begin with."""

from __future__ import annotations

from headrace.train.algorithms.presets import with_families
from headrace.train.settings.algorithm import DEFAULT_PRESET, Settings
from headrace.train.settings.common import COMMON
from headrace.train.settings.fields import record, setting
from headrace.train.settings.networks import Convolutions
from headrace.train.settings.rollouts import Clipping, Exploration


@record("PQN")
class PQNSettings:
    """The passes over a rollout, and their targets."""

    minibatch_size: int = setting(
        256, "Samples in one gradient step; all of them, if there are fewer.", low=1, speed=True
    )
    epochs: int = setting(2, "Passes over a rollout.", low=1, speed=True)
    q_lambda: float = setting(
        0.65, "Decay of Q(λ)'s targets: 0 trusts the action values after one step, 1 the returns.", low=0, high=1
    )


# fmt: off
# For observations that are vectors, with perceptrons; the sizes are those of purejaxql for CartPole.
_PQN: Settings = {
    "num_envs": 32, "num_steps": 64, "hidden": (128, 128), "activation": "relu", "minibatch_size": 128, "epochs": 4,
    "q_lambda": 0.95, "learning_rate": 1e-3, "max_grad_norm": 10.0,
}
PRESETS = with_families("pqn", {DEFAULT_PRESET: {"": _PQN}})
# fmt: on

PQN = COMMON.extended(
    Clipping, Convolutions, Exploration, PQNSettings,
    action_kinds=("discrete",), network_kinds=("mlp", "cnn", "own"), presets=PRESETS,
)  # fmt: skip
