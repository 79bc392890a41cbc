"""Settings, presets and capabilities of PPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.train.config.algorithms.ppo_presets import ppo_presets
from headrace.train.config.fields import WORKERS, Use, setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities
from headrace.train.config.rollout import RolloutConfig


@dataclass(frozen=True)
class PPOConfig(RolloutConfig):
    """Settings of PPO; with workers, whose rollouts are a little old, advantages are V-trace's."""

    minibatch_size: int = setting(256, "Samples in one gradient step; all of them, if there are fewer.", low=1)
    epochs: int = setting(4, "Passes over a rollout.", low=1)
    clip_range: float = setting(
        0.2, "The probability ratio's gain is clipped outside 1 ± this.", above=0, scheduled=True
    )
    value_clip_range: float | None = setting(
        None, "Clip the value's change in the value loss to ± this; None does not."
    )
    target_kl: float | None = setting(
        None, "Leave the epochs of an iteration once the policy has moved this far (approximate KL); None never does."
    )
    rollout_slots: int = setting(
        1,
        "Rollouts of each sampler that may wait to be learnt from, beside the one that is learnt from. More even out "
        "uneven speeds, and make the policy that acted older; a sampler without a free one waits.",
        low=1,
        group="workers",
        use=Use(ways=(WORKERS,)),
        shared=True,
    )
    rho_clip: float = setting(
        1.0,
        "V-trace's limit of the importance weight of a step. The lower, the more the critic is that of the policy that "
        "acted.",
        above=0,
        group="workers",
        use=Use(ways=(WORKERS,)),
    )
    trace_clip: float = setting(
        1.0,
        "V-trace's limit of the weights that carry what later steps earned back to earlier ones.",
        above=0,
        group="workers",
        use=Use(ways=(WORKERS,)),
    )


class PPODeclaration:
    """What PPO declares, see `Algorithm`."""

    settings = PPOConfig
    capabilities = Capabilities(workers=True, presets=(DEFAULT_PRESET, "fast"))

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        """Returns the settings with which a run of this task and network begins."""
        return ppo_presets(task, network, preset)
