"""Middles over seeds, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headrace.studies.plots.bands import MIDDLES, band, interquartile_mean, smoothed

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("count", [4, 8, 20])
def test_the_interquartile_mean_is_the_mean_of_the_middle_half(count: int) -> None:
    values = RNG.normal(size=(3, count))
    np.testing.assert_allclose(interquartile_mean(values), stats.trim_mean(values, 0.25, axis=-1))


def test_the_interquartile_mean_of_few_seeds_weighs_the_outer_ones_in_part() -> None:
    assert interquartile_mean(np.array([7.0])) == 7
    assert interquartile_mean(np.array([1.0, 3.0])) == 2
    # of three, a third of the weight each: 1/12 of the first and the last are within the middle half, of 1/2
    assert interquartile_mean(np.array([100.0, 2.0, 1.0])) == pytest.approx((1 / 12 + 2 / 3 + 100 / 12) * 2)


def test_an_interval_covers_the_true_mean_about_as_often_as_its_level() -> None:
    x = np.array([0.0, 1.0])
    inside, rng = 0, np.random.default_rng(3)
    for _ in range(60):
        curves = [(x, np.full(2, level)) for level in rng.normal(size=12)]
        found = band(curves, "mean")
        assert found is not None and (found.low <= found.middle).all() and (found.middle <= found.high).all()
        inside += bool(found.low[0] <= 0 <= found.high[0])
    assert 0.85 < inside / 60 < 0.99, "percentiles of few seeds are a little narrow"


@pytest.mark.parametrize("mean", MIDDLES)
def test_a_band_spans_the_steps_that_all_seeds_share(mean: str) -> None:
    long, short = np.linspace(0, 10, 11), np.linspace(2, 6, 5)
    found = band([(long, long), (short, short + 2)], mean)  # type: ignore[arg-type]
    assert found is not None and (found.x[0], found.x[-1]) == (2, 6)
    np.testing.assert_allclose(found.middle, found.x + 1)
    assert (found.low >= found.x - 1e-9).all() and (found.high <= found.x + 2 + 1e-9).all()
    assert band([(long, long), (long + 20, long)]) is None
    alone = band([(short, short**2)])
    assert alone is not None and (alone.x == short).all() and (alone.high == short**2).all()
    again = band([(long, long), (short, short + 2)], mean)  # type: ignore[arg-type]
    assert again is not None and (again.low == found.low).all(), "the same runs make the same plot"


def test_smoothing_uses_earlier_points_alone() -> None:
    x, y = np.arange(11.0), np.zeros(11)
    y[5] = 6.0
    assert (smoothed(x, y, 0.0) == y).all()
    np.testing.assert_allclose(smoothed(x, y, 0.2), [0, 0, 0, 0, 0, 2, 2, 2, 0, 0, 0])
    np.testing.assert_allclose(smoothed(x, x, 1.0), x / 2)
