"""Configurations: round trip, and errors that name the option."""

from __future__ import annotations

import pytest

from headrace.errors import OptionError
from headrace.train.config import Config, make_config
from headrace.train.tuned import TUNED


@pytest.mark.parametrize("task", [*TUNED, "Breakout-v5", "HalfCheetah-v5", "WalkerWalk-v1", "SomethingElse-v0"])
def test_json_round_trip(task):
    config = make_config(task, seed=7, env_options={"frame_skip": 2})
    assert Config.from_json(config.to_json()) == config


def test_an_algorithm_has_tuned_settings_of_its_own():
    known, unknown = make_config("Pendulum-v1", algo="ddpg"), make_config("Swing-v0", algo="ddpg")
    assert known.stop_at_return == -200 and known.exploration_noise > unknown.exploration_noise
    assert known.activation == unknown.activation == "relu" != make_config("Pendulum-v1").activation
    assert Config.from_json(known.to_json()) == known


def test_observations_of_several_arrays_come_as_one():
    config = make_config("WalkerWalk-v1", env_options={"frame_stack": 2})
    assert config.env_options == {"flat_observation": True, "frame_stack": 2}


def test_env_options_are_merged_into_the_tuned_ones():
    config = make_config("Pong-v5", env_options={"frame_skip": 2})
    assert config.env_options["frame_skip"] == 2
    assert config.env_options["reward_clip"] is True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rat", 1e-3),
        ("learning_rate", "fast"),
        ("learning_rate", -1.0),
        ("num_envs", 0),
        ("num_envs", 2.5),
        ("gamma", 1.5),
        ("network", "transformer"),
        ("hidden", ()),
        ("hidden", (64, 0)),
        ("batch_size", 7),
        ("epochs", True),
        ("seed", -1),
    ],
)
def test_bad_options_are_named(name, value):
    with pytest.raises(OptionError, match=name):
        make_config("CartPole-v1", **{name: value})


def test_an_unknown_option_is_answered_with_the_nearest():
    with pytest.raises(OptionError, match="learning_rate"):
        make_config("CartPole-v1", learning_rat=1.0)


def test_schedules_are_linear_between_their_points():
    config = make_config("CartPole-v1", schedules={"entropy_coef": [(100, 0.5), (200, 0.1), (400, 0.0)]})
    seen = [config.at(step).entropy_coef for step in (0, 100, 150, 200, 300, 1000)]
    assert seen == pytest.approx([0.5, 0.5, 0.3, 0.1, 0.05, 0.0])
    assert config.at(150).learning_rate == config.learning_rate


@pytest.mark.parametrize(
    "schedules",
    [{"gamma": [(0, 0.9)]}, {"clip_range": []}, {"clip_range": [(5, 0.1), (5, 0.2)]}, {"clip_range": [0.1, 0.2]}],
)
def test_wrong_schedules_are_named(schedules):
    with pytest.raises(OptionError, match=next(iter(schedules))):
        make_config("CartPole-v1", schedules=schedules)


def test_scheduled_values_are_checked_like_any_other():
    with pytest.raises(OptionError, match="clip_range"):
        make_config("CartPole-v1", schedules={"clip_range": [(0, 0.2), (10, -0.2)]})


def test_schedules_survive_their_file():
    config = make_config("CartPole-v1", schedules={"learning_rate": [(0, 1e-3), (100, 1e-4)]})
    assert Config.from_json(config.to_json()) == config
