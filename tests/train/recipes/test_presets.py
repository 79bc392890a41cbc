"""Presets hold settings of their algorithm, for tasks, families and kinds that there are."""

from __future__ import annotations

import pytest

from headrace.envs import FAMILIES
from headrace.pool.family import FROM_PIXELS
from headrace.train.recipes.table import KINDS
from headrace.train.settings.algorithm import ALGORITHMS, find_settings


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_presets_hold_settings_of_their_algorithm_alone(algo: str) -> None:
    record = find_settings(algo)
    for table in record.presets.values():
        for key, values in table.items():
            assert values.keys() <= record.settings.keys(), key
            name = key.removesuffix(FROM_PIXELS)
            assert name in {"", "gru", *FAMILIES, *KINDS} or "-v" in name
