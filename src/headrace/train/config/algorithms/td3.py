"""Settings, presets and capabilities of TD3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.train.config.algorithms.actor_critic import ActorCriticDeclaration, NoisyActorConfig
from headrace.train.config.fields import setting


@dataclass(frozen=True)
class TD3Config(NoisyActorConfig):
    """Settings of TD3."""

    policy_delay: int = setting(
        2, "Updates of the critics for each update of the actor and of the targets.", low=1, speed=True
    )
    target_noise: float = setting(0.2, "Standard deviation of the noise on the actions in the critics' targets.", low=0)
    target_noise_clip: float = setting(0.5, "Bound of that noise, ±.", low=0)


class TD3Declaration(ActorCriticDeclaration):
    """The declaration of TD3; see `Algorithm`."""

    settings = TD3Config
    own_presets: ClassVar = {"learning_rate": 1e-3, "learning_starts": 10_000}
