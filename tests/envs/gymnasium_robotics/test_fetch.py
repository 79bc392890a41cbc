"""Fetch does what Gymnasium-Robotics' Fetch does: from an equal state, with equal actions, everything is equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import pytest
from published import mended, official, put_into

import headrace
from headrace.envs.gymnasium_robotics import TASKS
from headrace.errors import KernelError, OptionError
from headrace.pool.registry import build_task
from nightly import rest_nightly

SPARSE = [task for task in TASKS if task.startswith("Fetch")]
FETCH = SPARSE + [task.replace("-", "Dense-") for task in SPARSE]
GAMES = {"mujoco": 3, "lanes": 1}


@pytest.fixture(autouse=True)
def _mended() -> Iterator[None]:
    with mended():
        yield


def towards_the_object(obs: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """An action of chance, which every other time brings the gripper to the object; fingers open now and then."""
    action = rng.uniform(-1.2, 1.2, 4)
    if obs["observation"].shape[1] > 10 and rng.random() < 0.6:
        action[:3] = np.clip(20 * obs["observation"][0, 6:9], -1, 1)
    return action


@pytest.mark.parametrize("task", rest_nightly(FETCH, *SPARSE))
@pytest.mark.parametrize(("physics", "apart"), [("mujoco", 1e-12), ("lanes", 1e-9)])
def test_every_step_is_that_of_gymnasium_robotics(task: str, physics: str, apart: float) -> None:
    env, rng, touched, apart_by = official(task), np.random.default_rng(1), 0, []
    if physics == "lanes":  # whose solver runs to its end
        env.model.opt.tolerance, env.model.opt.iterations = 0, 20
    with headrace.make(task, num_envs=1, seed=2, physics=physics, autoreset="disabled") as pool:
        for _ in range(GAMES[physics]):
            obs, info = pool.reset()
            put_into(env, env.data, pool)
            assert largest_difference(obs, env._get_obs()) < 1e-12
            truncated = np.zeros(1, bool)
            while not truncated[0]:
                before, action = obs["achieved_goal"][0], towards_the_object(obs, rng)
                obs, reward, terminated, truncated, info = pool.step(action[None])
                theirs, its_reward, its_end, _, its_info = env.step(action)
                apart_by.append(largest_difference(obs, theirs))
                if apart_by[-1] < apart:
                    assert reward[0] == pytest.approx(float(its_reward), abs=1e-6)
                assert info["is_success"][0] == its_info["is_success"] and terminated[0] == its_end
                assert info["physics_warning"][0] == 0
                touched += np.linalg.norm(obs["achieved_goal"][0] - before) > 1e-3
                put_into(env, env.data, pool)
            assert info["elapsed_step"][0] == gym.spec(task).max_episode_steps
    assert touched > 5
    if "Slide" in task and physics == "lanes":  # where the table holds a puck that stands on it is rounding
        assert np.median(apart_by) < 1e-5 and np.quantile(apart_by, 0.9) < 1e-3
    else:
        assert max(apart_by) < apart


def largest_difference(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> float:
    assert list(ours) == sorted(theirs)
    assert all(ours[key].dtype == value.dtype for key, value in theirs.items())
    return max(float(np.abs(ours[key][0] - value).max()) for key, value in theirs.items())


@pytest.mark.parametrize("task", FETCH)
def test_spaces_and_limits_are_those_of_gymnasium_robotics(task: str) -> None:
    env, spec = official(task), headrace.make_spec(task)
    assert spec.observation == env.observation_space
    assert isinstance(spec.action, gym.spaces.Box)
    np.testing.assert_array_equal(spec.action.low, env.action_space.low)
    np.testing.assert_array_equal(spec.action.high, env.action_space.high)
    assert spec.max_episode_steps == gym.spec(task).max_episode_steps
    assert spec.render_fps == pytest.approx(env.metadata["render_fps"])


@pytest.mark.parametrize("task", SPARSE)
def test_episodes_start_as_in_gymnasium_robotics(task: str) -> None:
    env, count = official(task), 600
    with headrace.make(task, num_envs=count, seed=3) as pool:
        ours, _ = pool.reset()
    theirs = [env.reset(seed=seed)[0] for seed in range(200)]
    for key in ours:
        drawn = np.stack([each[key] for each in theirs])
        for value in (np.mean, np.std, np.min, np.max):
            np.testing.assert_allclose(value(ours[key], 0), value(drawn, 0), 0, 0.08, err_msg=key)
    if "Reach" not in task:
        far = np.linalg.norm((ours["observation"][:, 3:6] - ours["observation"][:, :3])[:, :2], axis=1)
        assert 0.0995 < far.min() < 0.105  # of where the gripper was at the last substep's beginning


@pytest.mark.parametrize("task", FETCH)
def test_rewards_of_other_goals_are_those_of_gymnasium_robotics(task: str) -> None:
    goals = build_task(task, flat_observation=True).goals
    assert goals is not None
    rng = np.random.default_rng(1)
    achieved, desired = rng.uniform(0, 0.1, (2, 50, 3))
    earned, ends = goals.judge()(achieved, desired)
    theirs = official(task).compute_reward(achieved, desired, {})
    assert earned.dtype == np.float32 and ends is None and len(np.unique(earned)) > 1
    np.testing.assert_allclose(earned, theirs, 1e-7)
    with headrace.make(task, num_envs=8, seed=1, flat_observation=True) as pool:
        pool.reset()
        obs, reward, *_ = pool.step(np.zeros((8, 4)))
        again, _ = goals.judge()(obs[:, goals.achieved], obs[:, goals.desired])
        np.testing.assert_allclose(again, reward, 1e-6)


def test_the_kind_of_reward_is_an_option() -> None:
    rewards = []
    named: tuple[tuple[str, dict[str, Any]], ...] = (
        ("FetchPushDense-v4", {}),
        ("FetchPush-v4", {"reward_type": "dense"}),
    )
    for task, options in named:
        with headrace.make(task, num_envs=4, seed=1, **options) as pool:
            pool.reset()
            rewards.append(pool.step(np.zeros((4, 4)))[1])
    np.testing.assert_array_equal(*rewards)
    assert (rewards[0] > -1).any()
    with pytest.raises(OptionError, match="reward_type of FetchPush-v4 must be one of sparse, dense"):
        headrace.make_spec("FetchPush-v4", reward_type="none")


def test_goals_are_in_one_array_alone() -> None:
    """As hindsight replaces them there."""
    for options in ({}, {"flat_observation": True, "frame_stack": 2}):
        assert build_task("FetchReach-v4", **options).goals is None
    task = build_task("FetchReach-v4", flat_observation=True)
    assert task.goals is not None and task.spec.observation.shape == (16,)
    assert (task.goals.achieved, task.goals.desired) == (slice(0, 3), slice(3, 6))


def test_a_task_with_a_goal_reward_has_goals() -> None:
    task = import_module("headrace.envs.mujoco.inverted_pendulum").TASKS["InvertedPendulum-v5"]
    with pytest.raises(KernelError, match="goal_reward: its observation must be a Dict of observation, achieved_goal"):
        replace(task, goal_reward=lambda *_: (np.zeros(1), None))("InvertedPendulum-v5")


@pytest.mark.parametrize("task", ["FetchReach-v4", "FetchPush-v4", "FetchPickAndPlace-v4"])
def test_signals_say_what_is_seen_and_done(task: str) -> None:
    with headrace.make(task, num_envs=1, seed=3, flat_observation=True) as pool:
        told, rows = pool.spec.signals, [np.array(pool.reset()[0][0])]
        action = np.array([[0.5, -0.5, 0.5, 0.0]])
        rows += [np.array(pool.step(action)[0][0]) for _ in range(4)]
        assert sum(part.size for part in told.observation) == len(rows[0]) and told.rate_hz == 25
        ends = np.cumsum([part.size for part in told.observation])[:-1]
        names = [part.name for part in told.observation]
        before, seen = (dict(zip(names, np.split(row, ends), strict=True)) for row in rows[-2:])
    hand, thing = seen["place of the gripper"], seen.get("place of the object")
    np.testing.assert_array_equal(seen["achieved goal"], hand if thing is None else thing)
    if thing is not None:
        np.testing.assert_allclose(seen["place of the object from the gripper"], thing - hand)
    moved = hand - before["place of the gripper"]
    assert (moved * seen["velocity of the gripper"] > 0).all() and (moved * action[0, :3] > 0).all()
    assert (np.abs(moved) < [control.scale for control in told.action[:3]]).all()


def test_a_missing_package_is_named() -> None:
    with (
        patch("headrace.envs.gymnasium_robotics.common.find_spec", return_value=None),
        pytest.raises(OptionError, match=r"pip install 'headrace\[gymnasium-robotics\]'"),
    ):
        headrace.make_spec("FetchReach-v4")
