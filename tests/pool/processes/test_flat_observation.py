"""Observations of several parts as one array: what it holds, and for which spaces there is one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.errors import OptionError
from headrace.pool.executors.processes.flat_observation import WORDS, Joined, flattened, picture_shape, words_of

PARTS = gym.spaces.Dict(
    camera=gym.spaces.Box(0, 255, (2, 2, 3), np.uint8),
    inside=gym.spaces.Tuple((gym.spaces.Discrete(3, start=1), gym.spaces.MultiBinary(2))),
    mission=gym.spaces.Text(40),
)


class Parts(gym.Env[Any, Any]):
    observation_space, action_space = PARTS, gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        camera = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
        return {"camera": camera, "inside": (2, np.array([1, 0], np.int8)), "mission": "Go to the red, red ball"}, {}


def test_arrays_follow_each_other_and_of_texts_the_words_are_counted():
    env = flattened(Parts())
    row, _ = env.reset()
    assert row in env.observation_space and row.dtype == np.float32
    np.testing.assert_array_equal(row[:12], np.arange(12))
    np.testing.assert_array_equal(row[12:17], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(row[17:], words_of("go to the red red ball"))
    assert row[17:].sum() == 6 and len(row) == 17 + WORDS
    assert not np.array_equal(words_of("get a key"), words_of("get a box")) and not words_of("").any()


def test_what_has_neither_arrays_nor_texts_is_named():
    env = Parts()
    env.observation_space = gym.spaces.Dict(graph=gym.spaces.Graph(gym.spaces.Box(0, 1, (2,)), None))
    with pytest.raises(OptionError, match=r"there is no one array of Dict\('graph'"):
        flattened(env)


def test_missions_of_minigrid_are_words():
    pytest.importorskip("minigrid")
    with headrace.make("minigrid:MiniGrid-Fetch-5x5-N2-v0", num_envs=2, seed=1, flat_observation=True) as pool:
        obs, _ = pool.reset()
    assert obs.shape == (2, 7 * 7 * 3 + 4 + WORDS) and (obs[:, -WORDS:].sum(1) >= 4).all()


@pytest.mark.parametrize(
    ("shape", "dtype", "picture"),
    [
        ((4, 84, 84), np.uint8, (4, 84, 84)),
        ((96, 80, 3), np.uint8, (3, 96, 80)),
        ((84, 84, 12), np.uint8, (12, 84, 84)),
        ((12, 10, 10), np.uint8, (12, 10, 10)),
        ((9, 20), np.uint8, (1, 9, 20)),
        ((7, 7, 3), np.uint8, None),  # MiniGrid's cells
        ((96, 96, 3), np.float32, None),
        ((128,), np.uint8, None),
    ],
)
def test_pictures_are_bytes_of_two_or_three_dimensions(shape: tuple[int, ...], dtype: Any, picture: Any) -> None:
    assert picture_shape(gym.spaces.Box(0, 255, shape, dtype)) == picture


def test_pictures_that_are_kept_come_last_with_their_channels_first() -> None:
    space = gym.spaces.Dict(
        a=gym.spaces.Box(0, 3, (8, 9, 2), np.uint8), b=gym.spaces.Discrete(2), c=gym.spaces.Box(-1, 1, (2,))
    )
    joined, seen = Joined(space, keep=True), space.sample()
    row = joined.of(seen)
    assert joined.words() == "b [0:2], c [2:4], a [4:148] (a picture [2, 8, 9])" and joined.numbers == 4
    assert row in joined and row.dtype == np.float32 and joined.high[4:].max() == 3
    np.testing.assert_array_equal(row[4:].reshape(2, 8, 9), seen["a"].transpose(2, 0, 1))
    assert Joined(space).of(seen).shape == row.shape and not Joined(space).pictures
    alone = Joined(space["a"], keep=True)
    assert (alone.shape, alone.dtype) == ((2, 8, 9), np.uint8)
    np.testing.assert_array_equal(alone.of(seen["a"]), seen["a"].transpose(2, 0, 1))
