"""Options and environments that a pool in processes cannot have are refused, with the reason."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from simple_envs import Sleeper

import headrace
from headrace.errors import OptionError


class Blind(Sleeper):
    """Has None for an observation space."""

    observation_space = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_failure": "ignore"}, "on_failure must be one of raise, restart"),
        ({"worker_timeout": 0}, "worker_timeout must be"),
        ({"executor": "threads"}, "executor must be"),
    ],
)
def test_invalid_options_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(Sleeper, **options)


@pytest.mark.parametrize(
    ("given", "meant"), [("num_thread", "num_threads"), ("batchsize", "batch_size"), ("on_failures", "on_failure")]
)
def test_a_misspelt_option_gets_the_nearest_name_and_the_error_of_the_environment(given: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        headrace.make("gymnasium:CartPole-v1", num_envs=2, **{given: 2})  # type: ignore[call-overload]
    assert f"has no option {given!r}, did you mean {meant!r}?" in str(caught.value)
    assert f"CartPoleEnv.__init__() got an unexpected keyword argument {given!r}" in str(caught.value)


def test_other_errors_of_a_constructor_are_raised_unchanged() -> None:
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
def test_a_function_that_makes_no_environment_is_refused_at_once(made_by: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(made_by)


class Asking(Sleeper):
    """Names arguments of its own that are options of pools, or of their interfaces, elsewhere."""

    def __init__(
        self,
        render_mode: str | None = None,
        base_path: str = "",
        env_seed: int = 0,
        max_episode_steps: int = 5,
        frame_stack: int = 1,
        reward_threshold: float = 0.0,
        render_width: int = 0,
    ):
        self.asked = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self.render_mode = render_mode


class Inheriting(Asking):
    """Passes arguments of `Asking` on."""

    def __init__(self, more: int = 0, **rest: Any):
        super().__init__(**rest)


ASKED: dict[str, Any] = {
    "render_mode": "rgb_array",
    "base_path": "/data",
    "env_seed": 7,
    "max_episode_steps": 3,
    "frame_stack": 4,
    "reward_threshold": 2.0,
    "render_width": 64,
}


@pytest.mark.parametrize("env_type", [None, "vec", "gym"])
@pytest.mark.parametrize("task", [Asking, Inheriting, f"{__file__}:Asking", "Asking-v0"])
def test_arguments_that_an_environment_names_are_passed_to_it(task: Any, env_type: Any) -> None:
    gym.register("Asking-v0", f"{__name__}:Asking")
    try:
        pool = headrace.make(task, env_type, **ASKED)
        made = pool if env_type is None else pool.pool
        assert made.get_attr("asked") == [ASKED] and made.spec.max_episode_steps == 3
        pool.close()
    finally:
        del gym.registry["Asking-v0"]


def test_options_that_an_environment_does_not_name_go_to_the_interface() -> None:
    with headrace.make(Sleeper, base_path="/data", env_seed=[5]) as pool:
        assert pool.settings.seeds.tolist() == [5]
    assert headrace.make_spec(Asking, base_path="/data", env_seed=7).options == {"base_path": "/data", "env_seed": 7}


def test_an_option_that_executor_and_environment_both_name_is_refused() -> None:
    def maker(flat_observation: bool = False) -> gym.Env:
        return Sleeper()

    with pytest.raises(OptionError, match=r".*maker has an argument flat_observation, and so have pools"):
        headrace.make(maker, flat_observation=True)
    headrace.make(maker).close()
