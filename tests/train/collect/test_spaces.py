"""Spaces that no network can learn from are named before a run begins, with what to do."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import headrace
from headrace.errors import OptionError

NUMBERS, CHOICES = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
NOTHING, SEQUENCE = spaces.Box(-1, 1, (0,), np.float32), spaces.Sequence(spaces.Discrete(3))


class Random(gym.Env):
    """Shows samples of its observation space."""

    def __init__(self, observation_space: spaces.Space = NUMBERS, action_space: spaces.Space = CHOICES):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, False, {}


class OfSequences(Random):
    def __init__(self):
        super().__init__(SEQUENCE)


class OfSequencesToo(Random):
    def __init__(self):
        super().__init__(spaces.Dict(numbers=NUMBERS, words=SEQUENCE))


class OfNothing(Random):
    def __init__(self):
        super().__init__(NOTHING)


class Doing(Random):
    def __init__(self):
        super().__init__(action_space=SEQUENCE)


class DoingNothing(Random):
    def __init__(self):
        super().__init__(action_space=NOTHING)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("OfSequences", r"observations of Sequence\(.*no fixed shape.*gymnasium.ObservationWrapper"),
        ("OfSequencesToo", r"observations of Sequence\(.*gymnasium.ObservationWrapper"),
        ("OfNothing", r"observations without a number, Box.*observe a constant"),
        ("Doing", r"actions of Sequence\(.*gymnasium.ActionWrapper"),
        ("DoingNothing", r"actions without a number, Box.*nothing to learn"),
    ],
)
def test_a_space_without_numbers_to_learn_from_is_named(name: str, words: str, tmp_path: Any) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.train(f"{__file__}:{name}", "ppo", total_steps=64, run_dir=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("space", [SEQUENCE, spaces.Text(3), spaces.Tuple((CHOICES, spaces.Graph(CHOICES, None)))])
def test_actions_that_no_pool_can_hold_are_named(space: spaces.Space) -> None:
    with pytest.raises(OptionError, match=r"not (Sequence|Text|Graph)\(.*gymnasium.ActionWrapper"):
        headrace.make(lambda: Random(action_space=space))


def test_pools_step_spaces_that_no_network_can_learn_from() -> None:
    with headrace.make(lambda: Random(NOTHING, NOTHING), num_envs=2) as pool:
        assert pool.reset()[0].shape == pool.step(np.zeros((2, 0), np.float32))[0].shape == (2, 0)
    with headrace.make(lambda: Random(SEQUENCE, spaces.MultiDiscrete([])), num_envs=2) as pool:
        pool.reset()
        assert pool.step(np.zeros((2, 0), int))[0].dtype == object
