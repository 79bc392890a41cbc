"""Options of a reset reach the environments; calls between sends lose no results."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.errors import EnvironmentFailure, OptionError


class Placed(gym.Env):
    """Begins where it is told to, and steps by its action."""

    observation_space = gym.spaces.Box(-100, 100, (1,), np.float64)
    action_space = gym.spaces.Discrete(10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = float(self.np_random.random()) if options is None else options["place"]
        return np.array([self.place]), {"told": options}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += int(action)
        return np.array([self.place]), 1.0, self.place > 50, False, {}


def test_reset_options_reach_every_chosen_environment() -> None:
    with headrace.make(Placed, num_envs=4, num_threads=2, seed=3) as pool:
        obs, info = pool.reset(options={"place": 7.0})
        assert obs.tolist() == [[7]] * 4 and info["told"]["place"].tolist() == [7] * 4
        obs, info = pool.reset([2, 0], options={"place": 3.0})
        assert obs.tolist() == [[3], [3]] and info["env_id"].tolist() == [2, 0]
        mask = np.array([False, True, False, False])
        obs, info = pool.reset(options={"place": 4.0, "reset_mask": mask})
        assert obs.tolist() == [[4]] and info["env_id"].tolist() == [1]
        assert pool.step([1] * 4)[0].tolist() == [[4], [5], [4], [8]]
        alone, _ = Placed().reset(seed=11)
        assert pool.reset([1], seed=[11])[0].tolist() == [alone.tolist()], "options are for one reset"


def test_reset_mask_is_not_passed_to_environments() -> None:
    with headrace.make(Placed, num_envs=2) as pool:
        for options in ({"reset_mask": np.ones(2, bool)}, {}):
            assert pool.reset(options=options)[1]["told"].tolist() == [None] * 2


def test_episodes_begun_by_autoreset_get_no_options() -> None:
    with headrace.make(Placed, num_envs=2, autoreset="same_step") as pool:
        pool.reset(options={"place": 49.0})
        obs, _, terminated, *_ = pool.step([2, 1])
        assert terminated.tolist() == [True, False]
        assert 0 <= obs[0, 0] < 1 and obs[1, 0] == 50


def test_the_vector_view_passes_reset_options_on() -> None:
    view = headrace.make(Placed, "vec", num_envs=3, num_threads=2)
    view.reset(options={"place": 1.0})
    obs, _ = view.reset(options={"place": 5.0, "reset_mask": np.array([True, False, True])})
    assert obs.tolist() == [[5], [1], [5]]
    view.close()


def test_an_asynchronous_pool_passes_reset_options_on() -> None:
    with headrace.make(Placed, num_envs=4, batch_size=2, num_threads=2) as pool:
        seen = pool.reset(options={"place": 6.0})[0].tolist() + pool.recv()[0].tolist()
        assert seen == [[6]] * 4


def test_options_that_cannot_be_passed_on_are_refused_with_a_reason() -> None:
    with headrace.make(Placed, num_envs=2) as pool:
        with pytest.raises(OptionError, match="cannot pickle"):
            pool.reset(options={"place": threading.Lock()})
        with pytest.raises(OptionError, match="must be a dict"):
            pool.reset(options=[1])  # type: ignore[arg-type]
        with pytest.raises(EnvironmentFailure, match="KeyError: 'place'"):
            pool.reset(options={"plaice": 1.0})
        assert pool.reset(options={"place": 2.0})[0].tolist() == [[2], [2]]


def test_calls_between_sends_lose_no_results() -> None:
    """Calls overwrite the ring in which requests lie."""
    with headrace.make(Placed, num_envs=4, batch_size=2, num_threads=1) as pool:
        pool.reset(options={"place": 0.0})
        pool.recv()
        for step in range(1, 4):
            pool.send([1, 1], [0, 1])
            for _ in range(20):
                assert pool.get_attr("place", [2, 3]) == [0.0, 0.0]
            obs, *_, info = pool.recv(timeout=60)
            assert obs.tolist() == [[step]] * 2 and set(info["env_id"].tolist()) == {0, 1}
