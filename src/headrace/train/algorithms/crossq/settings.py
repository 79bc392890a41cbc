"""The settings of CrossQ, and what it can do, and settings to begin with."""

from __future__ import annotations

from headrace.train.algorithms.presets import with_families
from headrace.train.algorithms.sac.settings import SAC
from headrace.train.settings.algorithm import DEFAULT_PRESET, Settings
from headrace.train.settings.fields import record, setting
from headrace.train.settings.replays import TargetRate


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
PRESETS = with_families("crossq", {
    # For few steps: narrower critics and several environments, both of which save time.
    DEFAULT_PRESET: {"": _CROSSQ | {"num_envs": 8, "num_steps": 8, "critic_hidden": (512, 512)}},
    # For few seconds, most of which are updates: few updates, targets of three steps, and a learning rate that ends
    # at 0.
    "fast": {"": _CROSSQ | {
        "total_steps": 300_000, "num_envs": 32, "num_steps": 8, "critic_hidden": (), "anneal_learning_rate": True,
        "replay_ratio": 1 / 32, "n_step": 3, "torch_threads": 1,
    }},
    "published": {"": _CROSSQ},
})
# fmt: on

CROSSQ = SAC.extended(CrossQSettings, without=(TargetRate,), network_kinds=("mlp", "cnn"), presets=PRESETS)
