"""Infos of environments in processes: as Gymnasium joins them, or as the task declares them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from simple_envs import Counter, Odd, actions

import headrace
from headrace.errors import EnvironmentFailure
from headrace.pool.executors.processes.task import process_task
from masked_gymnasium_games import Dials, Doors, Said


class Reporter(gym.Env):
    """Says in its info which number it has and how many steps it took, and at times something else."""

    observation_space = gym.spaces.Discrete(100)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, number: int):
        self.number, self.count = number, 0

    def _said(self) -> tuple[int, dict[str, Any]]:
        info = {"number": self.number, "counts": np.array([self.count, -self.count])}
        return self.count, info | ({"odd": True} if self.count % 2 else {})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.count = 0
        return self._said()

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.count += 1
        obs, info = self._said()
        return obs, 0.0, self.count == 3, False, info


def test_infos_of_several_sends_come_together() -> None:
    with headrace.make(Counter, num_envs=3, num_threads=2, length=3, autoreset="same_step", seed=0) as pool:
        pool.reset()
        for _ in range(2):
            pool.step(actions(3))
        pool.send(actions(1), [1])
        pool.send(actions(2), [2, 0])
        info = pool.recv()[-1]
        assert info["env_id"].tolist() == [1, 2, 0] and info["_drawn"].all()
        assert info["final_info"]["nested"]["count"].tolist() == [3] * 3


def test_infos_that_do_not_fit_an_array_are_objects() -> None:
    given = [(0.0, False, False, {"x": np.arange(5.0), "n": 1}), (0.0, False, False, {"x": np.arange(1.0), "n": 2**70})]
    with headrace.make(Odd, num_envs=2, given=given) as pool:
        pool.reset()
        info = pool.step(np.array([0, 1]))[-1]
        assert [len(x) for x in info["x"]] == [5, 1] and info["n"].tolist() == [1, 2**70]


def test_infos_that_a_task_declares_are_plain_arrays() -> None:
    info = (headrace.Field("number", np.dtype(np.int32)), headrace.Field("counts", np.dtype(np.float64), (2,)))
    spec = headrace.TaskSpec("Reporter-v0", Reporter.observation_space, Reporter.action_space, info)
    headrace.register("Reporter-v0", lambda task, **options: process_task(spec, Reporter, options), replace=True)
    with headrace.make("Reporter-v0", num_envs=5, num_threads=2, autoreset="same_step") as pool:
        _, info = pool.reset()
        assert info["number"].tolist() == [0, 1, 2, 3, 4] and info["number"].dtype == np.int32
        assert "_number" not in info and not info["counts"].any()
        for count in (1, 2):
            *_, info = pool.step(np.zeros(5, np.int64))
            assert info["counts"].tolist() == [[count, -count]] * 5
            assert ("odd" in info) == (count == 1)
        *_, terminated, _, info = pool.step(np.zeros(5, np.int64))
        assert terminated.all() and not info["counts"].any()
        assert info["final_info"]["counts"].tolist() == [[3, -3]] * 5
        assert info["final_info"]["number"].tolist() == [0, 1, 2, 3, 4]
        assert info["final_info"]["odd"].all()
    with headrace.make("Reporter-v0", num_envs=4, batch_size=2, num_threads=2) as pool:
        pool.async_reset()
        *_, info = pool.recv()
        assert np.array_equal(info["number"], info["env_id"])


@pytest.mark.parametrize(
    ("kind", "dtype"), [("bool", np.bool_), ("int8", np.int8), ("float64", np.int8), ("list", np.bool_)]
)
def test_action_masks_are_plain_arrays(kind: str, dtype: type) -> None:
    with headrace.make(Doors, num_envs=3, seed=1, kind=kind, autoreset="same_step") as pool:
        field, given = pool.spec.info
        assert given.name == "_action_mask" and (field.name, field.dtype, field.shape) == ("action_mask", dtype, (4,))
        _, info = pool.reset()
        for _ in range(25):  # an episode has 20 steps, and a closed door is an error
            mask = info["action_mask"]
            assert mask.dtype == dtype and mask.shape == (3, 4) and info["_action_mask"].all()
            *_, info = pool.step(mask.argmax(1) + 1)


def test_where_a_mask_is_missing_all_actions_are_allowed() -> None:
    with headrace.make(Doors, num_envs=2, seed=1, gives="even") as pool:
        _, info = pool.reset()
        *_, after = pool.step(info["action_mask"].argmax(1) + 1)
        assert not info["action_mask"].all() and after["action_mask"].all()
        assert info["_action_mask"].all() and not after["_action_mask"].any()
    with headrace.make(Said, num_envs=2, step=[0, 1]) as pool:  # a mask that is None says as little
        _, info = pool.reset()
        *_, after = pool.step([0, 0])
        assert info["action_mask"].all() and after["action_mask"].tolist() == [[0, 1]] * 2


def test_masks_of_several_choices_are_joined() -> None:
    with headrace.make(Dials, num_envs=2, seed=1) as pool:
        _, info = pool.reset()
        for _ in range(5):
            first, second = np.split(info["action_mask"], [2], 1)
            assert (first.sum(1) == 1).all() and (second.sum(1) == 1).all()
            *_, info = pool.step(np.stack([first.argmax(1), second.argmax(1)], 1))


@pytest.mark.parametrize(
    ("mask", "words"), [([1, 0, 1], r"shape \(3,\).* \(2,\)"), ([2, 0], "1 for allowed actions and 0")]
)
def test_a_mask_that_changes_its_form_is_a_failure(mask: list[int], words: str) -> None:
    with headrace.make(Said, num_envs=2, reset=[1, 1], step=mask) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=words):
            pool.step([0, 0])


@pytest.mark.parametrize(
    "options", [{"reset": [1, 1, 1]}, {"reset": [0.5, 1]}, {"reset": "abc"}, {"reset": [1, 1], "continuous": True}]
)
def test_what_is_no_mask_of_the_actions_is_plain_info(options: dict[str, Any]) -> None:
    with headrace.make(Said, num_envs=2, **options) as pool:
        assert not pool.spec.info
        _, info = pool.reset()
        assert info["_action_mask"].all()
