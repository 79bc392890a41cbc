"""The settings of PPO, and what it can do."""

from __future__ import annotations

from headrace.train.algorithms.ppo.presets import PPO as PRESETS
from headrace.train.settings.fields import record, setting
from headrace.train.settings.rollouts import ROLLOUTS
from headrace.train.settings.when import WORKERS


@record("PPO")
class PPOSettings:
    """The passes over a rollout, and their clipping."""

    minibatch_size: int = setting(
        256, "Samples in one gradient step; all of them, if there are fewer.", low=1, speed=True
    )
    epochs: int = setting(4, "Passes over a rollout.", low=1, speed=True)
    clip_range: float = setting(0.2, "The probability ratio is clipped to 1 ± this.", above=0, scheduled=True)
    value_clip_range: float | None = setting(
        None, "Clip the change of the value in the value loss to ± this; None does not.", above=0
    )
    target_kl: float | None = setting(
        None,
        "End the epochs of an iteration once the approximate KL divergence from the policy that acted is above this; "
        "None never does.",
        above=0,
        speed=True,
    )


@record("workers", WORKERS)
class VTrace:
    """Rollouts of samplers, which are of slightly older policies: their advantages are V-trace's."""

    rollout_slots: int = setting(
        1,
        "Rollouts of each sampler that may wait for the learner, beside the one it learns from. More of them even out "
        "different speeds, but make the policy that acted older; a sampler without a free one waits.",
        low=1,
        shared=True,
    )
    rho_clip: float = setting(
        1.0,
        "V-trace: largest importance weight of a step, ρ̄. A lower one moves the critic towards the values of the "
        "policy that acted.",
        above=0,
    )
    trace_clip: float = setting(
        1.0, "V-trace: largest weight, c̄, with which later steps count for the values of earlier ones.", above=0
    )


PPO = ROLLOUTS.extended(PPOSettings, VTrace, has_workers=True, presets=PRESETS)
