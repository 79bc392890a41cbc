"""Whether a run's returns have improved after its first updates; if not, its user should try something else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.settings.config import Config

PATIENCE = 60.0
"""seconds of training"""
UPDATES = 1000
"""updates, without which a minute says nothing of the settings"""
LEAST = 20
"""episodes at the beginning, and again at the end of that time, that are compared"""
ERRORS = 2.0
"""standard errors of the difference of two means that are an improvement"""


class FirstMinute:
    """Compares the first episodes of a run with its newest ones, after `PATIENCE`, `UPDATES` and enough episodes."""

    def __init__(self) -> None:
        self._first: Sequence[float] = ()
        self._counted = 0  # episodes up to the first ones
        self.over = False

    def look(self, tracker: EpisodeTracker, seconds: float, updates: int) -> str | None:
        """Returns in words how the mean return compares, once, if it has not improved; otherwise None.

        Args:
            tracker: the episodes of one process.
            seconds, updates: seconds of training, and updates of the policy, so far.
        """
        episodes = 0 if self.over else tracker.episodes
        if not self._first and episodes >= LEAST:
            self._first, self._counted = tracker.last()[0], episodes
        if not self._first or seconds < PATIENCE or updates < UPDATES or episodes < self._counted + LEAST:
            return None
        self.over = True
        newest = tracker.last()[0][self._counted - episodes :]
        (before, error), (now, other) = map(_mean, (self._first, newest))
        if now > before + ERRORS * math.hypot(error, other):
            return None
        spent = f"{seconds:.0f} s and {updates:,} updates"
        return f"the mean return has not risen in {spent}: it was {before:.4g} at first, and is {now:.4g} now"


def own_settings(config: Config, observation: gym.Space) -> list[str]:
    """Returns settings of a run's own algorithm to try before another one, as options of the command.

    They are at most three of those that mend most runs (``docs/not-learning.md``), without those that the run has.

    Args:
        config: the settings of the run's first policy.
        observation: what it observes.
    """
    normalises = config.samplers == 0 or not config.algorithm.replays
    numbers = isinstance(observation, gym.spaces.Box) and observation.dtype != np.uint8
    known = vars(config)
    noise, fraction = known.get("exploration_noise", 0.0), known.get("epsilon_fraction", 1.0)
    found = {
        "--normalise-observations": normalises and numbers and not config.normalise_observations,
        "--normalise-rewards": normalises and not config.normalise_rewards,
        "--entropy-coef 0.01": known.get("entropy_coef", 1.0) == 0 and "entropy_coef" not in config.schedules,
        f"--exploration-noise {2 * noise:.2g}": noise > 0,
        f"--epsilon-fraction {2 * fraction:.2g}": fraction <= 0.5,
        f"--learning-rate {config.learning_rate / 3:.1g}": True,
    }
    return [option for option, helps in found.items() if helps][:3]


def _mean(values: Sequence[float]) -> tuple[float, float]:
    mean, count = math.fsum(values) / len(values), len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(1, count * (count - 1)))
