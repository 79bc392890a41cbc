"""Settings of algorithms that explore by random actions in place of the best ones."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.train.config.fields import setting
from headrace.train.config.settings import Config


@dataclass(frozen=True)
class EpsilonConfig(Config):
    """The share of random actions during a run: linear in the first part of it, then constant."""

    epsilon_start: float = setting(1.0, "Share of random actions at the start.", low=0, high=1, group="exploration")
    epsilon_end: float = setting(0.05, "Share of random actions at the end.", low=0, high=1, group="exploration")
    epsilon_fraction: float = setting(
        0.1,
        "Share of total_steps over which epsilon falls from epsilon_start to epsilon_end.",
        above=0,
        group="exploration",
    )

    def epsilon_at(self, step: int) -> float:
        progress = min(1.0, step / (self.epsilon_fraction * self.total_steps))
        return self.epsilon_start + progress * (self.epsilon_end - self.epsilon_start)
