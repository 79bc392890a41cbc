"""Observations of several parts as one array: what it holds, and for which spaces there is one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.pool.flat_observation import (
    PICTURES,
    WORDS,
    Joined,
    flattened,
    picture_shape,
    words_of,
)
from headrace.train.modules.observation_encoder import InputEncoder

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


def test_a_flat_row_joins_all_arrays_and_counts_the_words_of_texts():
    env = flattened(Parts())
    row, _ = env.reset()
    assert row in env.observation_space and row.dtype == np.float32
    np.testing.assert_array_equal(row[:12], np.arange(12))
    np.testing.assert_array_equal(row[12:17], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(row[17:], words_of("go to the red red ball"))
    assert row[17:].sum() == 6 and len(row) == 17 + WORDS
    assert not np.array_equal(words_of("get a key"), words_of("get a box")) and not words_of("").any()


def test_a_space_of_neither_arrays_nor_texts_is_refused_by_name():
    env = Parts()
    env.observation_space = gym.spaces.Dict(graph=gym.spaces.Graph(gym.spaces.Box(0, 1, (2,)), None))
    with pytest.raises(OptionError, match=r"Dict\('graph'.* cannot be flattened into one array"):
        flattened(env)


def test_a_minigrid_mission_becomes_the_counts_of_its_words():
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
def test_picture_shape_finds_pictures_and_puts_channels_first(shape: tuple[int, ...], dtype: Any, picture: Any) -> None:
    assert picture_shape(gym.spaces.Box(0, 255, shape, dtype)) == picture


def test_a_joined_row_ends_with_its_kept_pictures_channels_first() -> None:
    space = gym.spaces.Dict(
        a=gym.spaces.Box(0, 3, (8, 9, 2), np.uint8), b=gym.spaces.Discrete(2), c=gym.spaces.Box(-1, 1, (2,))
    )
    joined, seen = Joined(space, keep=True), space.sample()
    row = joined.of(seen)
    assert joined.words() == "b [0:2] (one-hot), c [2:4], a [4:148] (a picture [2, 8, 9])" and joined.numbers == 4
    categories = gym.spaces.Dict(d=gym.spaces.Discrete(2, start=3), m=gym.spaces.MultiDiscrete([2, 2]))
    assert Joined(categories).parts() == [
        ("d", (2,), ("is 3", "is 4")),
        ("m", (4,), ("0 is 0", "0 is 1", "1 is 0", "1 is 1")),
    ]
    assert row in joined and row.dtype == np.float32 and joined.high[4:].max() == 3
    np.testing.assert_array_equal(row[4:].reshape(2, 8, 9), seen["a"].transpose(2, 0, 1))
    assert Joined(space).of(seen).shape == row.shape and not Joined(space).pictures
    alone = Joined(space["a"], keep=True)
    assert (alone.shape, alone.dtype) == ((2, 8, 9), np.uint8)
    np.testing.assert_array_equal(alone.of(seen["a"]), seen["a"].transpose(2, 0, 1))


class Stamped(gym.Env[Any, Any]):
    """Shows the seconds since 1970, beside a picture or a text."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, beside: str = "text", kind: str = "float64"):
        low, high = (-np.inf, np.inf) if kind == "float64" else (0, 2**40)
        clock = gym.spaces.Box(low, high, (1,), np.dtype(kind).type)
        other = gym.spaces.Text(40) if beside == "text" else gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)
        self.observation_space = gym.spaces.Dict(clock=clock, level=gym.spaces.Discrete(3), shown=other)
        self._shown: Any = "go" if beside == "text" else np.full((8, 8, 3), 7, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.seconds = 1_700_000_000
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.seconds += 1
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> dict[str, Any]:
        assert isinstance(self.observation_space, gym.spaces.Dict)
        clock = np.array([self.seconds], self.observation_space["clock"].dtype)
        return {"clock": clock, "level": 1, "shown": self._shown}


@pytest.mark.parametrize("kind", ["float64", "int64"])
@pytest.mark.parametrize(("beside", "option"), [("text", True), ("picture", PICTURES)])
def test_numbers_that_float32_would_round_are_normalised_in_float64(beside: str, option: Any, kind: str) -> None:
    space: Any = flattened(Stamped(beside, kind), option == PICTURES).observation_space
    with headrace.make(f"{__file__}:Stamped", num_envs=1, beside=beside, kind=kind, flat_observation=option) as pool:
        rows = [pool.reset()[0], *(pool.step(np.zeros(1, np.int64))[0] for _ in range(9))]
    seen = torch.from_numpy(np.concatenate(rows))
    assert seen.dtype == torch.float64 and seen[:, 0].tolist() == [1_700_000_000 + n for n in range(10)]
    encoder = InputEncoder(space, torch.device("cpu"), normalise=True)
    assert encoder.normaliser is not None
    encoder.normaliser.update(seen)
    inputs = encoder(seen)
    assert inputs.dtype == torch.float32
    np.testing.assert_allclose(inputs[:, 0], (np.arange(10) - 4.5) / np.std(np.arange(10)), rtol=1e-6)
    if option == PICTURES:
        assert (inputs[:, -192:] == 7).all(), "pixels stay as they are"


def test_small_numbers_beside_texts_and_pictures_stay_float32() -> None:
    small = gym.spaces.Dict(speed=gym.spaces.Box(-1, 1, (2,), np.float32), level=gym.spaces.Discrete(3))
    for other in (gym.spaces.Text(9), gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)):
        assert Joined(gym.spaces.Dict(small.spaces | {"shown": other}), True).dtype == np.float32
