"""Settings, presets and capabilities of DDPG."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.train.config.algorithms.actor_critic import ActorCriticDeclaration, NoisyActorConfig
from headrace.train.config.rollout import GradientClipConfig


@dataclass(frozen=True)
class DDPGConfig(NoisyActorConfig, GradientClipConfig):
    """Settings of DDPG."""


class DDPGDeclaration(ActorCriticDeclaration):
    """The declaration of DDPG; see `Algorithm`."""

    settings = DDPGConfig
