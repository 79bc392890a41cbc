"""Means over seeds with bootstrapped bands.

The interquartile mean, and confidence intervals by bootstrap over runs, are those of Agarwal, Schwarzer, Castro,
Courville and Bellemare, "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021): with
few seeds, a single outlier dominates the mean, and the median ignores most runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Mean = Literal["iqm", "mean", "median"]
POINTS = 200  # points of a band
RESAMPLES = 2000
COVERAGE = 0.95


@dataclass(frozen=True)
class Band:
    """The mean of several curves, and its confidence interval; all float64 [M].

    Attributes:
        x: agent steps or seconds.
        middle: the mean over seeds.
        low, high: ends of the interval; equal to ``middle`` for a single curve.
    """

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Returns the mean of the middle half along the last axis, [..., K] → [...].

    If K is not a multiple of 4, the values at the quartiles have fractional weights, so that half of the total weight
    is always in the middle.
    """
    count = values.shape[-1]
    edges = np.arange(count + 1) / count
    weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    return np.sort(values, axis=-1) @ weight / weight.sum()


MIDDLES: dict[Mean, Callable[[np.ndarray], np.ndarray]] = {
    "iqm": interquartile_mean,
    "mean": lambda values: values.mean(axis=-1),
    "median": lambda values: np.median(values, axis=-1),
}


def band(curves: Sequence[tuple[np.ndarray, np.ndarray]], mean: Mean = "iqm", smooth: float = 0.0) -> Band | None:
    """Returns the mean of curves over the part of x that all of them have; None if there is no such part.

    Whole curves are resampled, so that points of one run stay together. In a plot with a panel for each task, this is
    the stratified bootstrap: runs are drawn within their task.

    Args:
        curves: (x, y) of each seed, float64 [M_i], with increasing x.
        smooth: the share of `smoothed`, for each curve.
    """
    begin, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if begin > end:
        return None
    # the points of a single curve are kept
    x = curves[0][0] if len(curves) == 1 else np.linspace(begin, end, POINTS if end > begin else 1)
    values = np.stack([np.interp(x, own, smoothed(own, y, smooth)) for own, y in curves], axis=-1)  # [M, K]
    middle_of = MIDDLES[mean]
    middle = middle_of(values)
    if len(curves) == 1:
        return Band(x, middle, middle, middle)
    rng = np.random.default_rng(0)  # so that the same runs result in the same plot
    drawn = rng.integers(len(curves), size=(RESAMPLES, len(curves)))
    tails = (50 * (1 - COVERAGE), 50 * (1 + COVERAGE))
    intervals = [np.percentile(middle_of(row[drawn]), tails) for row in values]
    low, high = np.array(intervals).T
    return Band(x, middle, low, high)


def smoothed(x: np.ndarray, y: np.ndarray, share: float) -> np.ndarray:
    """Returns the mean of each point and the earlier points within a window, float64 [M].

    Args:
        x, y: float64 [M], with increasing x.
        share: length of the window as a share of ``x[-1] - x[0]``; 0 leaves y unchanged.
    """
    if share <= 0 or len(x) < 2:
        return y
    first = np.searchsorted(x, x - share * (x[-1] - x[0]))
    sums = np.concatenate([[0.0], np.cumsum(y)])
    after = np.arange(1, len(y) + 1)
    return (sums[after] - sums[first]) / (after - first)
