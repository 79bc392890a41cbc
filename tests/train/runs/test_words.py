"""Returns as they are shown."""

from __future__ import annotations

import math

import pytest

from headrace.train.runs.words import return_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.96, "0.96"),
        (0.9612, "0.961"),
        (-0.0437, "-0.0437"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (9.87, "9.87"),
        (-12.34, "-12.3"),
        (500, "500.0"),
        (-1234.56, "-1234.6"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_small_returns_have_three_digits(value: float | None, text: str) -> None:
    assert return_text(value) == text
