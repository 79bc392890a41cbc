"""What may be varied, and how it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution as Choice
from optuna.distributions import FloatDistribution, IntDistribution

from headrace.errors import OptionError
from headrace.studies.sweep.space import plain_space, read_space, settings_of, space_of


def test_ranges_and_choices_are_read_as_the_settings_are() -> None:
    words = ["learning_rate=1e-4..1e-2:log", "num_steps=32,64", "epochs=1..8", "gamma=0.9..1", "hidden=64x64,128"]
    words += ["activation=tanh,relu", "anneal_learning_rate=true,false", "target_kl=None,0.1", "clip_range=0.1,1"]
    space = read_space(words, "ppo")
    assert space["learning_rate"] == FloatDistribution(1e-4, 1e-2, log=True) and space["epochs"] == IntDistribution(
        1, 8
    )
    assert space["num_steps"] == Choice((32, 64)) and space["gamma"] == FloatDistribution(0.9, 1.0)
    assert space["hidden"] == Choice(("64x64", "128")) and space["activation"] == Choice(("tanh", "relu"))
    assert space["anneal_learning_rate"] == Choice((True, False)) and space["target_kl"] == Choice((None, 0.1))
    assert space_of(json.loads(json.dumps(plain_space(space))), "ppo") == space
    drawn = {"hidden": "64x64", "activation": "tanh", "target_kl": None, "num_steps": 32}
    assert settings_of(drawn, "ppo") == drawn | {"hidden": [64, 64]}


def test_a_space_from_a_file_equals_that_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("num_steps = [32, 64]\n[learning_rate]\nlow = 1e-4\nhigh = 1e-2\nlog = true\n")
    (tmp_path / "a.json").write_text(
        '{"num_steps": [32, 64], "learning_rate": {"low": 1e-4, "high": 0.01, "log": true}}'
    )
    space = read_space(["num_steps=32,64", "learning_rate=1e-4..1e-2:log"], "ppo")
    assert all(read_space([str(tmp_path / name)], "ppo") == space for name in ("a.toml", "a.json"))


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("learning_rat=1..2", "nearest: learning_rate"),
        ("replay_ratio=1..2", "would not be used by ppo"),
        ("learning_rate=2..1", "must rise"),
        ("learning_rate=0..1:log", "must begin above 0"),
        ("learning_rate=1..2:cube", "not :cube"),
        ("learning_rate=a..b", "'a' is not a number"),
        ("learning_rate=", "must be a range"),
        ("learning_rate=1,,2", "must be a range"),
        ("epochs=1..2.5", "whole numbers"),
        ("activation=1..2", "is not a number"),
        ("hidden=64xa", "widths"),
        ("seed=1..5", "cannot vary seed"),
        ("hidden=1..2", "is not a number"),
        ("nowhere.toml", "neither name=values nor a TOML or JSON file"),
    ],
)
def test_mistakes_are_named(word: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        read_space([word], "ppo")


def test_duplicate_and_empty_spaces_are_errors(tmp_path: Path) -> None:
    for words, told in (([], "name the settings to vary"), (["gamma=0.9,1", "gamma=0.8,1"], "gamma twice")):
        with pytest.raises(OptionError, match=told):
            read_space(words, "ppo")
    for text in (
        '{"gamma": 3}',
        '{"gamma": {"low": 1}}',
        "[]",
        "{",
        '{"gamma": []}',
        '{"epochs": {"low": "a", "high": 3}}',
    ):
        (tmp_path / "space.json").write_text(text)
        with pytest.raises(OptionError, match="--space"):
            read_space([str(tmp_path / "space.json")], "ppo")
