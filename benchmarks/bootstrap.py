"""How sure a mean over a few runs is: 95 % of the means of as many runs, drawn again and again from those there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DRAWS = 10_000
NINETY_FIVE = (2.5, 97.5)


def drawn_means(values: Sequence[float], random: np.random.Generator) -> np.ndarray:
    """Means of as many values, drawn from these: float64[DRAWS]."""
    return random.choice(values, (DRAWS, len(values))).mean(1)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """What 95 % of the means lie in."""
    low, high = np.percentile(drawn_means(values, np.random.default_rng(0)), NINETY_FIVE)
    return float(low), float(high)


def gain(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """How much higher the mean of the first is, and 95 % of that, drawn from both."""
    random = np.random.default_rng(0)
    low, high = np.percentile(drawn_means(mine, random) - drawn_means(theirs, random), NINETY_FIVE)
    return float(np.mean(mine) - np.mean(theirs)), float(low), float(high)
