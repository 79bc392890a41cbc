"""Infos of environments in processes: as Gymnasium joins them, or as the task declares them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from simple_envs import Counter, Odd, actions

import headrace
from headrace.errors import EnvironmentFailure, OptionError
from headrace.pool.executors.processes.task import process_task
from masked_gymnasium_games import Dials, Doors, Said


class Reporter(gym.Env):
    """Has its number and its count of steps in its info, and in every second step another key."""

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


def test_infos_of_several_sends_are_joined_in_one_batch() -> None:
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


def test_all_actions_are_allowed_without_a_mask() -> None:
    with headrace.make(Doors, num_envs=2, seed=1, gives="even") as pool:
        _, info = pool.reset()
        *_, after = pool.step(info["action_mask"].argmax(1) + 1)
        assert not info["action_mask"].all() and after["action_mask"].all()
        assert info["_action_mask"].all() and not after["_action_mask"].any()
    with headrace.make(Said, num_envs=2, step=[0, 1]) as pool:  # a mask that is None counts as missing
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
def test_a_mask_of_another_shape_or_of_invalid_values_raises_a_failure(mask: list[int], words: str) -> None:
    with headrace.make(Said, num_envs=2, reset=[1, 1], step=mask) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=words):
            pool.step([0, 0])


@pytest.mark.parametrize(
    "options", [{"reset": [1, 1, 1]}, {"reset": [0.5, 1]}, {"reset": "abc"}, {"reset": [1, 1], "continuous": True}]
)
def test_an_action_mask_that_does_not_fit_the_actions_stays_plain_info(options: dict[str, Any]) -> None:
    with headrace.make(Said, num_envs=2, **options) as pool:
        assert not pool.spec.info
        _, info = pool.reset()
        assert info["_action_mask"].all()


class Rewriter(Reporter):
    """Writes into the same arrays and dicts in every step and reset."""

    def __init__(self) -> None:
        super().__init__(0)
        self.told: dict[str, Any] = {"place": np.zeros(2), "deep": {"place": np.zeros(1)}}

    def _said(self) -> tuple[int, dict[str, Any]]:
        self.told["place"][:] = self.told["deep"]["place"][:] = self.count
        return self.count, self.told


def test_final_infos_are_not_overwritten_by_the_next_episode() -> None:
    with headrace.make(Rewriter, num_envs=2, autoreset="same_step") as pool:
        pool.reset()
        for _ in range(2):
            pool.step(np.zeros(2, np.int64))
        *_, info = pool.step(np.zeros(2, np.int64))
        assert info["final_info"]["place"].tolist() == [[3, 3]] * 2 and not info["place"].any()
        assert info["final_info"]["deep"]["place"].tolist() == [[3]] * 2


@pytest.mark.parametrize("key", ["env_id", "elapsed_step", "players", "final_obs", "final_info", "_env_id"])
def test_an_info_key_reserved_by_the_pool_is_refused_by_name(key: str) -> None:
    with headrace.make(Odd, num_envs=2, given=(1.0, False, False, {key: {"mine": 5}, "x": 1})) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=rf"environment 0 raised(.|\n)*info\['{key}'\] is a key"):
            pool.step(np.zeros(2, np.int64))


def test_restarted_and_failed_keys_are_refused_only_in_pools_that_add_them() -> None:
    given = (1.0, False, False, {"restarted": "no", "failed": 0.5})
    with headrace.make(Odd, given=given) as pool:
        pool.reset()
        *_, info = pool.step([0])
        assert info["restarted"].tolist() == ["no"] and info["failed"].tolist() == [0.5]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"on_failure": "restart"}, "restarted"),
        ({"num_envs": 2, "batch_size": 1}, "failed"),
    ]
    for more, key in cases:
        with headrace.make(Odd, given=given, **more) as pool:
            pool.async_reset()
            for _ in range(pool.num_envs):
                pool.recv()
            with pytest.raises(EnvironmentFailure, match=key):
                pool.step([0], [0])


def test_a_task_cannot_declare_an_info_field_reserved_by_the_pool() -> None:
    info = (headrace.Field("players", np.dtype(np.int32)),)
    spec = headrace.TaskSpec("It", gym.spaces.Discrete(2), gym.spaces.Discrete(2), info)
    with pytest.raises(OptionError, match="an info field cannot be called 'players'"):
        process_task(spec, Reporter, {})


def test_final_info_has_a_mask_of_the_environments_that_set_each_key() -> None:
    given = [(0.0, True, False, {"x": 1.5}), (0.0, True, False, {"y": 2})]
    envs = headrace.make_vec(Odd, num_envs=2, autoreset="same_step", given=given)
    envs.reset()
    final = envs.step(np.array([0, 1]))[-1]["final_info"]
    assert final["_x"].tolist() == [True, False] and final["_y"].tolist() == [False, True]
    assert final["_elapsed_step"].all() and "__x" not in final
    envs.close()


def test_a_step_after_a_partial_reset_keeps_the_infos_of_all_rows() -> None:
    envs = headrace.make_gym(Odd, num_envs=3, given=(1.0, False, False, {"x": 1.5, "word": "on"}))
    envs.reset([1])
    *_, info = envs.step(np.zeros(3, np.int64))
    assert info["x"].tolist() == [0, 1.5, 0] and info["_word"].tolist() == [False, True, False]
    assert info["env_id"].tolist() == [0, 1, 2]
    envs.close()


def test_own_info_keys_of_an_environment_do_not_replace_discount_and_reward() -> None:
    own = {"discount": {"rate": 0.5}, "reward": 75.0, "terminated": True, "alive": None}
    env = headrace.make_dm(Odd, num_envs=2, given=(0.75, False, False, own))
    env.reset()
    step = env.step(np.zeros(2, np.int64))
    assert step.discount.tolist() == [1.0, 1.0] and step.reward.tolist() == [0.75, 0.75]
    env.close()
    with headrace.make(Odd, num_envs=2, given=(0.75, False, False, own)) as pool:
        wrapped = headrace.wrappers.TransformReward(pool, lambda step: step.reward)
        wrapped.reset()
        with pytest.raises(OptionError, match=r"info\['reward'\] of Odd is its environment's own"):
            wrapped.step(np.zeros(2, np.int64))
