"""The settings of CrossQ, and what it can do."""

from __future__ import annotations

from headrace.train.algorithms.crossq.presets import CROSSQ as PRESETS
from headrace.train.algorithms.sac.settings import SAC
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


CROSSQ = SAC.extended(CrossQSettings, without=(TargetRate,), network_kinds=("mlp", "cnn"), presets=PRESETS)
