"""Rough ground: a height field from a seed, which is the same on every machine."""

from __future__ import annotations

import numpy as np

POINTS = 512  # along each side
SPACING = 0.08  # m
HALF = (POINTS - 1) * SPACING / 2  # m from the middle to a side


def heights(seed: int) -> np.ndarray:
    """Returns the heights float32 [512, 512] of points 8 cm apart, each uniform between 0 and 1, as in Playground.

    Args:
        seed: of the random numbers; 0 or more.
    """
    field = np.random.default_rng(seed).random((POINTS, POINTS))
    return ((field - field.min()) / np.ptp(field)).astype(np.float32)
