"""Environments share neither their state nor global random generators."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import EzPickle
from simple_envs import the_only_one

import headrace
from headrace.errors import EnvironmentFailure, OptionError


class Draws(gym.Env):
    """Shows what it draws from the generators of its process."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array([random.random(), np.random.random()]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([random.random(), np.random.random()]), 0.0, False, False, {}


class Remade(Draws, EzPickle):
    """Is pickled as the arguments it was made with."""


def drawn(make: Any, num_threads: int, seed: int = 1) -> np.ndarray:
    """float64[steps, N, 2], of four environments."""
    pool = make(Draws, num_envs=4, num_threads=num_threads, seed=seed)
    return np.stack([pool.reset()[0], *(pool.step(np.zeros(4, np.int64))[0] for _ in range(3))])


@pytest.mark.parametrize("num_threads", [4, 2])
def test_global_generators_differ_between_environments_and_repeat_with_the_seed(make: Any, num_threads: int) -> None:
    seen = drawn(make, num_threads)
    assert len(np.unique(seen)) == seen.size
    np.testing.assert_array_equal(drawn(make, num_threads), seen)
    assert not np.isin(drawn(make, num_threads, seed=100), seen).any()


def test_draws_of_a_seeded_reset_do_not_depend_on_the_number_of_processes(make: Any) -> None:
    np.testing.assert_array_equal(drawn(make, 4)[0], drawn(make, 1)[0])


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("made", [Draws, Remade, lambda: gym.wrappers.TimeLimit(Draws(), 5)])
def test_a_function_that_returns_the_same_environment_twice_is_refused(made: Callable[[], Any], num_envs: int) -> None:
    env = made()
    for function in (lambda: env, lambda: gym.wrappers.TimeLimit(env, 9)):
        with pytest.raises(OptionError, match=r"returns the same \w+ again.* let each call make a new one"):
            headrace.make(function, num_envs=num_envs, num_threads=num_envs)


def test_an_imported_environment_shared_within_a_process_is_refused(make: Any) -> None:
    pool = make(the_only_one, num_envs=2, num_threads=1, seed=1)
    with pytest.raises(EnvironmentFailure, match="returns the same Sleeper again"):
        pool.reset()


def test_a_function_may_keep_references_to_its_environments(make: Any) -> None:
    kept: list[Any] = []

    def made() -> Draws:
        kept.append(Draws())
        return kept[-1]

    assert make(made, num_envs=3, num_threads=2, seed=1).reset()[0].shape == (3, 2)
