"""Environments that raise, hang or take their process with them: the error names them, and the others go on."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from simple_envs import Counter, Odd, Sleeper, actions

import headrace
from headrace.errors import EnvironmentFailure

N, W = 6, 2


class Fatal(Sleeper):
    """Ends its process as soon as it is made there."""

    def __init__(self) -> None:
        if multiprocessing.parent_process() is not None:
            os._exit(3)


def test_the_error_names_an_environment_that_raised_and_the_others_continue() -> None:
    with headrace.make(Counter, num_envs=N, num_threads=W, seed=0, length=9) as pool:
        pool.reset()
        for _ in range(2):
            pool.step(actions(N))
        wrong = actions(N)
        wrong["a"][3] = 4
        with pytest.raises(EnvironmentFailure, match=r"environment 3 raised(.|\n)*asked to fail") as failure:
            pool.step(wrong)
        assert isinstance(failure.value.__cause__, ZeroDivisionError)
        assert "worker.py" not in str(failure.value)
        with pytest.raises(EnvironmentFailure, match=r"environment 3(.|\n)*reset"):
            pool.step(actions(N))
        pool.reset([3])
        obs, *_ = pool.step(actions(N))
        assert obs["inner"][0].tolist() == [5, 5, 5, 1, 5, 5]


def test_the_error_of_a_killed_worker_names_its_environments() -> None:
    with headrace.make(Sleeper, num_envs=4, num_threads=2, seed=0) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=r"SIGKILL.*environments 2 to 3"):
            pool.step(np.array([0, 0, 99_999, 0]))
        obs, *_ = pool.step(np.zeros(2, np.int64), [0, 1])
        assert obs.tolist() == [[1], [1]]
        pool.reset([2, 3])
        assert pool.step(np.zeros(4, np.int64))[1].tolist() == [1] * 4


@pytest.mark.parametrize("batch_size", [4, 2])
def test_environments_lost_with_a_worker_restart_and_are_truncated(batch_size: int) -> None:
    settings: dict[str, Any] = {"num_envs": 4, "batch_size": batch_size, "num_threads": 2, "on_failure": "restart"}
    with headrace.make(Sleeper, seed=0, autoreset="same_step", **settings) as pool:
        pool.async_reset() if batch_size < 4 else pool.reset()
        for _ in range(4 // batch_size if batch_size < 4 else 0):
            pool.recv()
        pool.send(np.array([0, 0, 99_999, 0]), np.arange(4))
        rows = {}
        for _ in range(4 // batch_size):
            obs, reward, terminated, truncated, info = pool.recv()
            assert not terminated.any()
            rows |= dict(zip(info["env_id"].tolist(), zip(truncated, reward, obs, strict=True), strict=True))
        assert [bool(rows[i][0]) for i in range(4)] == [False, False, True, True]
        assert [float(rows[i][1]) for i in range(4)] == [1, 1, 0, 0]
        pool.send(np.zeros(4, np.int64), np.arange(4))
        for _ in range(4 // batch_size):
            assert not pool.recv()[3].any()


def test_a_worker_that_hangs_is_ended() -> None:
    with headrace.make(Sleeper, num_envs=2, num_threads=2, seed=0, worker_timeout=3) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=r"finished no step for 3 s.*environment 1 was in it"):
            pool.step(np.array([0, 60_000]))
        pool.reset([1])
        pool.step(np.array([0, 0]))


def test_a_worker_that_ends_at_every_start_raises_an_error_despite_restart() -> None:
    pool = headrace.make(Fatal, num_envs=2, num_threads=1, on_failure="restart")
    with pytest.raises(EnvironmentFailure, match="exit status 3"):
        pool.reset()
    pool.close()


def test_a_call_to_a_dead_worker_raises_an_error_and_the_next_step_restarts_it() -> None:
    with headrace.make(Sleeper, num_envs=2, num_threads=1, on_failure="restart") as pool:
        pool.set_attr("name", ["a", "b"])  # before the first reset
        pool.reset()
        (worker,) = pool._executor._dispatch._workers._processes  # type: ignore[attr-defined]
        worker.kill()
        worker.join()
        with pytest.raises(EnvironmentFailure, match="not answered"):
            pool.get_attr("name")
        assert pool.step(np.zeros(2, np.int64))[3].all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((None, False, False, {}), "reward=None"),
        ((1.0, False, False, [1]), r"info must be a dict, not \[1\]"),
    ],
)
def test_an_invalid_step_result_raises_the_failure_of_its_environment(given: Any, words: str) -> None:
    with headrace.make(Odd, num_envs=2, given=given) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=f"environment 0 raised(.|\n)*{words}"):
            pool.step(np.zeros(2, np.int64))


class Drawn(gym.Env[Any, Any]):
    """Observes a number that it draws in each episode; actions 1 and 2 fail, the latter with its process."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.random(1, np.float32), {}

    def step(self, action: Any) -> Any:
        if action == 2:
            os._exit(3)
        if action == 1:
            raise RuntimeError("asked to fail")
        return self.np_random.random(1, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("action", [1, 2])
@pytest.mark.parametrize("on_failure", ["raise", "restart"])
def test_after_a_failure_episodes_are_new_ones_that_follow_from_the_seed(action: int, on_failure: Any) -> None:
    def drawn() -> list[float]:
        with headrace.make(Drawn, num_envs=2, num_threads=1, seed=0, on_failure=on_failure) as pool:
            seen = [pool.reset()[0]]
            for _ in range(3):
                try:
                    pool.step([action, 0])
                except EnvironmentFailure:
                    seen.append(pool.reset()[0])
                else:
                    seen.append(pool.step([0, 0])[0])
            assert np.array_equal(pool.reset(seed=0)[0], seen[0])
        return np.concatenate(seen)[::2, 0].tolist()

    first = drawn()
    assert len({*first}) == 4 and drawn() == first
