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
    """Settings of PPO; with workers, whose rollouts are of slightly older policies, advantages are V-trace's."""

    minibatch_size: int = setting(
        256, "Samples in one gradient step; all of them, if there are fewer.", low=1, speed=True
    )
    epochs: int = setting(4, "Passes over a rollout.", low=1, speed=True)
    clip_range: float = setting(0.2, "The probability ratio is clipped to 1 ± this.", above=0, scheduled=True)
    value_clip_range: float | None = setting(
        None, "Clip the change of the value in the value loss to ± this; None does not."
    )
    target_kl: float | None = setting(
        None,
        "End the epochs of an iteration once the approximate KL divergence from the policy that acted is "
        "above this; None never does.",
        speed=True,
    )
    rollout_slots: int = setting(
        1,
        "Rollouts of each sampler that may wait for the learner, beside the one it learns from. More of "
        "them even out different speeds, but make the policy that acted older; a sampler without a free one "
        "waits.",
        low=1,
        group="workers",
        use=Use(ways=(WORKERS,)),
        shared=True,
    )
    rho_clip: float = setting(
        1.0,
        "V-trace: largest importance weight of a step, ρ̄. A lower one moves the critic towards the values "
        "of the policy that acted.",
        above=0,
        group="workers",
        use=Use(ways=(WORKERS,)),
    )
    trace_clip: float = setting(
        1.0,
        "V-trace: largest weight, c̄, with which later steps count for the values of earlier ones.",
        above=0,
        group="workers",
        use=Use(ways=(WORKERS,)),
    )


class PPODeclaration:
    """The declaration of PPO; see `Algorithm`."""

    settings = PPOConfig
    capabilities = Capabilities(workers=True, presets=(DEFAULT_PRESET, "fast"))

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        return ppo_presets(task, network, preset)
