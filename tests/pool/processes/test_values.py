"""Values that an environment returns are unchanged in a pool's results, or an error names them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from simple_envs import Odd

import headrace
from headrace.errors import EnvironmentFailure
from headrace.pool.executors.processes.task import process_task

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete
BYTES, FLOATS = Box(0, 255, (2,), np.uint8), Box(-np.inf, np.inf, (2,), np.float32)


class Shows(gym.Env):
    """Shows what it was made with."""

    action_space = Discrete(2)

    def __init__(self, space: gym.Space, seen: Any, info: Any = None):
        self.observation_space, self.seen, self.info = space, seen, info or {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.seen, self.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.seen, 0.0, False, False, self.info


@pytest.mark.parametrize(
    ("space", "seen", "words"),
    [
        (BYTES, [0.9, 1], r"the observation holds 0.9, which uint8 does not"),
        (BYTES, [0, 300], r"holds 300, which uint8"),
        (BYTES, np.array([np.nan, 0]), r"holds nan"),
        (BYTES, np.array([0, -1]), r"holds -1"),
        (Box(-5, 5, (2,), np.int64), np.array([2.0**63, 0]), r"holds 9.2\d+e\+18, which int64"),
        (Discrete(3), 0.5, r"holds 0.5, which int64"),
        (gym.spaces.MultiBinary(2), [1, 400], r"holds 400, which int8"),
        (FLOATS, np.array([0, 1e300]), r"holds 1e\+300, which float32"),
        (FLOATS, ["1.5", "2"], "must hold numbers of float32"),
        (FLOATS, [None, 1.0], "must hold numbers of float32"),
        (FLOATS, [1j, 0], "must hold numbers of float32"),
        (gym.spaces.Dict({"a": gym.spaces.Tuple((BYTES,))}), {"a": ([0, 0.5],)}, r"observation\['a'\]\[0\] holds 0.5"),
    ],
)
def test_an_observation_that_does_not_fit_its_dtype_is_refused_with_its_value(
    space: gym.Space, seen: Any, words: str
) -> None:
    with (
        headrace.make(lambda: Shows(space, seen), num_envs=2) as pool,
        pytest.raises(EnvironmentFailure, match=rf"environment 0 raised(.|\n)*{words}"),
    ):
        pool.reset()


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (BYTES, [3.0, 255.0]),
        (BYTES, np.array([7, 9], np.int64)),
        (BYTES, [True, False]),
        (FLOATS, np.array([0.1, np.inf])),
        (FLOATS, [1, np.nan]),
        (FLOATS, np.array([1.5, 2], object)),
        (Discrete(5), np.float32(4)),
    ],
)
def test_values_of_another_dtype_pass_if_their_numbers_fit(space: gym.Space, seen: Any) -> None:
    with headrace.make(lambda: Shows(space, seen)) as pool:
        obs, _ = pool.reset()
        assert obs.dtype == space.dtype
        np.testing.assert_allclose(obs[0], np.asarray(seen, np.float64), rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((1.0, "False", False), "step gave terminated='False', which must be True or False"),
        ((1.0, False, None), "truncated=None"),
        ((1.0, [False, False], False), "terminated="),
        ((1.0, 0.5, False), "terminated=0.5"),
        ((np.array([1.0, 2.0]), False, False), r"must be one number(.|\n)*mo_gymnasium.wrappers.LinearReward"),
        (([1.0, 2.0], False, False), "must be one number"),
        (("1.5", False, False), "reward='1.5', which must be a number"),
        ((1e300, False, False), r"reward=1e\+300, which is too large"),
        ((10**400, False, False), "too large"),
    ],
)
def test_an_invalid_reward_or_end_is_refused_with_its_value(given: Any, words: str) -> None:
    with headrace.make(Odd, given=(*given, {})) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=words):
            pool.step([0])


@pytest.mark.parametrize("one", [1, np.bool_(True), np.int64(1), np.array([True]), 1.0])
def test_ends_may_be_numbers_and_rewards_arrays_of_one_element(one: Any) -> None:
    with headrace.make(Odd, given=(np.array([2.5]), 0, one, {})) as pool:
        pool.reset()
        _, reward, terminated, truncated, _ = pool.step([0])
        assert reward == 2.5 and not terminated and truncated


@pytest.mark.parametrize(
    ("said", "words"), [({"lives": 2.5}, r"info\['lives'\] holds 2.5"), ({"lives": [1, 2]}, "has shape"), ({}, "lives")]
)
def test_a_declared_info_that_does_not_fit_its_field_is_refused_by_name(said: Any, words: str) -> None:
    spec = headrace.TaskSpec("Said-v0", BYTES, Discrete(2), (headrace.Field("lives", np.dtype(np.int32)),))
    made = lambda _: Shows(BYTES, np.zeros(2, np.uint8), said)  # noqa: E731
    headrace.register("Said-v0", lambda task, **options: process_task(spec, made, options), replace=True)
    with headrace.make("Said-v0") as pool, pytest.raises(EnvironmentFailure, match=words):
        pool.reset()
