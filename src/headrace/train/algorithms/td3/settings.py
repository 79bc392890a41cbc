"""The settings of TD3, and what it can do."""

from __future__ import annotations

from headrace.train.algorithms.presets import continuous
from headrace.train.settings.fields import record, setting
from headrace.train.settings.replays import ACTOR_CRITIC, ActionNoise


@record("TD3")
class TD3Settings:
    """The delay of the actor, and the noise of targets."""

    policy_delay: int = setting(
        2, "Updates of the critics for each update of the actor and of the targets.", low=1, speed=True
    )
    target_noise: float = setting(0.2, "Standard deviation of the noise on the actions in the critics' targets.", low=0)
    target_noise_clip: float = setting(0.5, "Bound of that noise, ±.", low=0)


TD3 = ACTOR_CRITIC.extended(
    ActionNoise,
    TD3Settings,
    presets=continuous("td3", {"learning_rate": 1e-3, "learning_starts": 10_000}),
)
