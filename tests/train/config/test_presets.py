"""Presets are looked up by task, family of tasks and network."""

from __future__ import annotations

import pytest

from headrace.train.config.presets import FAMILIES, Presets, preset_of
from headrace.train.config.registry import ALGORITHMS, find_settings

TABLES: Presets = {
    "default": {"": {"epochs": 1}, "atari": {"epochs": 2}, "Pong-v5": {"epochs": 3}, "gru": {"gamma": 0.5}},
    "fast": {"atari": {"epochs": 4}},
}


@pytest.mark.parametrize(
    ("task", "preset", "epochs"),
    [
        ("Pong-v5", "default", 3),
        ("Breakout-v5", "default", 2),
        ("CartPole-v1", "default", 1),
        ("Pong-v5", "fast", 4),  # what the preset has for the family, before what the default one has for the task
        ("CartPole-v1", "fast", 1),
        ("CartPole-v1", "unknown", 1),  # of the run, for a policy whose algorithm has none of this name
    ],
)
def test_a_task_has_the_entry_that_fits_it_best(task: str, preset: str, epochs: int) -> None:
    assert preset_of(TABLES, task, "auto", preset) == {"epochs": epochs}
    assert preset_of(TABLES, task, "gru", preset) == {"epochs": epochs, "gamma": 0.5}
    assert preset_of({"other": {}}, task, "gru", preset) == {}


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_presets_hold_settings_of_their_algorithm_alone(algo: str) -> None:
    record = find_settings(algo)
    for table in record.presets.values():
        for key, values in table.items():
            assert values.keys() <= record.__dataclass_fields__.keys(), key
            assert key in {"", "gru", *FAMILIES} or "-v" in key
