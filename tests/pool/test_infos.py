"""Infos of single environments become one dict of arrays, and can be recovered from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.errors import EnvironmentFailure
from headrace.pool.infos import by_row, gathered, info_of_row


@pytest.mark.parametrize(
    "values",
    [
        [0, 12.75],
        [True, 3],
        [np.str_("left"), np.str_("right")],
        ["left", 3],
        [np.uint8(200), 300],
        [2**53 + 1, 0.5],
        [2**63, -1],
        [{"depth": 1}, None],
        [None, {"depth": 1}],
        [{"depth": 1}, {"depth": 2.5}],
        [1.5, "none"],
        [np.array([1, 2]), np.array([0.5, 0.25])],
        [np.array(["a"]), np.array(["longer"])],
        [np.array([1, 2]), np.array([1, 2, 3])],
        [0, float("nan")],
    ],
    ids=repr,
)
def test_info_values_of_several_environments_keep_their_values_and_types(values: list[Any]) -> None:
    infos = gathered({1: {"it": values[0]}, 3: {"it": values[1]}}, 4)
    assert infos["_it"].tolist() == [False, True, False, True]
    rows = by_row(infos, 4)
    assert rows[0] == rows[2] == {}
    for value, row in zip(values, (1, 3), strict=True):
        assert repr(np.asarray(rows[row]["it"]).tolist()) == repr(np.asarray(info_of_row(infos, row)["it"]).tolist())
        np.testing.assert_equal(rows[row]["it"], value)


def test_numeric_hidden_and_nested_keys_of_an_info_are_kept() -> None:
    told = {7: 0.5, "_private": 1, "game": {"players": 2, "env_id": "north", 3: "c"}}
    infos = gathered({0: told}, 2)
    assert by_row(infos, 2) == [told, {}] and info_of_row(infos, 0) == told


@pytest.mark.parametrize("keys", [("speed", "_speed"), ("_speed", "speed"), (3, "3")])
def test_a_key_that_is_another_keys_mask_is_refused_by_name(keys: tuple[Any, Any]) -> None:
    with pytest.raises(EnvironmentFailure, match=r"mask '_(speed|3)'"):
        gathered({0: {keys[0]: 1.0}, 1: {keys[1]: 2.0}}, 2)
