"""Settings, presets and capabilities of SAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.train.config.algorithms.actor_critic import ActorCriticDeclaration
from headrace.train.config.fields import setting
from headrace.train.config.replay import ActorCriticConfig


@dataclass(frozen=True)
class SACConfig(ActorCriticConfig):
    """Settings of SAC."""

    initial_temperature: float = setting(
        1.0, "Weight of the entropy at the start; then it is learnt with learning_rate.", above=0
    )
    target_entropy: float | None = setting(
        None,
        "Entropy, in nats, that the temperature is adjusted to; None for minus the number of an action's dimensions.",
    )


class SACDeclaration(ActorCriticDeclaration):
    """The declaration of SAC; see `Algorithm`."""

    settings = SACConfig
    own_presets: ClassVar = {"learning_starts": 5000}
