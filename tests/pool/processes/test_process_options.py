"""What a pool in processes cannot be made of is refused, in words that say what can."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from simple_envs import Sleeper

import headrace
from headrace.errors import OptionError


class Blind(Sleeper):
    """Observes nothing that is a space."""

    observation_space = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_failure": "ignore"}, "on_failure must be one of raise, restart"),
        ({"worker_timeout": 0}, "worker_timeout must be"),
        ({"executor": "threads"}, "executor must be"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(Sleeper, **options)


@pytest.mark.parametrize(
    ("given", "meant"), [("num_thread", "num_threads"), ("batchsize", "batch_size"), ("on_failures", "on_failure")]
)
def test_a_misspelt_option_names_the_nearest_and_what_the_environment_says(given: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        headrace.make("gymnasium:CartPole-v1", num_envs=2, **{given: 2})  # type: ignore[call-overload]
    assert f"has no option {given!r}, did you mean {meant!r}?" in str(caught.value)
    assert f"CartPoleEnv.__init__() got an unexpected keyword argument {given!r}" in str(caught.value)


def test_what_else_a_constructor_raises_is_its_own() -> None:
    def maker() -> gym.Env:
        raise TypeError("broken in itself")

    with pytest.raises(TypeError, match="broken in itself"):
        headrace.make(maker, num_envs=1)


@pytest.mark.parametrize(
    ("made_by", "words"),
    [
        (lambda: Sleeper, "makes the class Sleeper, not an environment"),
        (lambda: gym.make_vec("CartPole-v1", 2), "steps several environments together"),
        (lambda: headrace.make("CartPole-v1"), "makes a Pool, which steps several environments together"),
        (lambda: None, "makes a NoneType, which is no gymnasium.Env"),
        (Blind, "has None for a gymnasium.Space"),
    ],
)
def test_what_is_no_environment_is_refused_before_anything_is_stepped(made_by: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(made_by)
