"""The settings of SAC, and what it can do."""

from __future__ import annotations

from headrace.train.algorithms.presets import continuous
from headrace.train.settings.fields import record, setting
from headrace.train.settings.replays import ACTOR_CRITIC


@record("SAC")
class SACSettings:
    """The temperature."""

    initial_temperature: float = setting(
        1.0, "Weight of the entropy at the start; then it is learnt with learning_rate.", above=0
    )
    target_entropy: float | None = setting(
        None,
        "Entropy, in nats, that the temperature is adjusted to; None for minus the number of an action's dimensions.",
    )


SAC = ACTOR_CRITIC.extended(SACSettings, presets=continuous("sac", {"learning_starts": 5000}))
