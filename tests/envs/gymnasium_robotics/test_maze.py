"""The mazes do what Gymnasium-Robotics' mazes do: from an equal state, with equal actions, everything is equal."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from published import mujoco, official

import headrace
from headrace.envs.gymnasium_robotics import TASKS
from headrace.pool.registry import build_task
from nightly import rest_nightly

MAZES = [task for task in TASKS if "Maze" in task]
SOME = ("PointMaze_UMaze-v3", "PointMaze_Large_Diverse_G-v3", "AntMaze_UMaze-v5", "AntMaze_Medium_Diverse_GR-v5")


def put_into(env: Any, pool: Any) -> Any:
    """Puts Gymnasium-Robotics' environment where the pool's only one is; returns its inner one."""
    inner = env.point_env if hasattr(env, "point_env") else env.ant_env
    state = pool.state_arrays()
    mujoco.mj_resetData(inner.model, inner.data)
    inner.set_state(state["qpos"][0].copy(), state["qvel"][0].copy())
    inner.data.qacc_warmstart[:] = state["warmstart"][0]
    env.goal = np.array(state["goal"][0])
    return inner


@pytest.mark.parametrize("task", rest_nightly(MAZES, *SOME))
def test_every_step_is_that_of_gymnasium_robotics(task: str) -> None:
    env, rng, hits = official(task), np.random.default_rng(1), 0
    env.reset(seed=1)
    with headrace.make(task, num_envs=1, seed=2, physics="mujoco", autoreset="disabled") as pool:
        for _ in range(2):
            obs, _ = pool.reset()
            inner = put_into(env, pool)
            compare(obs, env._get_obs(inner._get_obs()[0] if "Point" in task else inner._get_obs()))
            for t in range(60):
                if t == 20:  # near the goal, and fast
                    arrays = pool._executor.state_arrays()
                    arrays["goal"][:] = obs["achieved_goal"] + 0.2
                    put_into(env, pool)
                action = rng.uniform(-1, 1, pool.action_space.shape)
                obs, reward, terminated, _, info = pool.step(action[None])
                theirs, its_reward, its_end, _, its_info = env.step(action)
                compare(obs, theirs)
                assert reward[0] == np.float32(its_reward) and terminated[0] == its_end
                assert info["success"][0] == info["is_success"][0] == its_info["success"]
                hits += info["success"][0]
    assert hits > 5


def compare(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert list(ours) == sorted(theirs)
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key][0], value, 0, 1e-9, err_msg=key)


@pytest.mark.parametrize("task", MAZES)
def test_models_spaces_limits_and_cells_are_those_of_gymnasium_robotics(task: str) -> None:
    env, made = official(task), build_task(task)
    assert made.spec.observation == env.observation_space
    assert isinstance(made.spec.action, gym.spaces.Box)
    np.testing.assert_array_equal(made.spec.action.low, env.action_space.low)
    assert made.spec.max_episode_steps == gym.spec(task).max_episode_steps
    with headrace.make(task, num_envs=400, seed=1) as pool:
        obs, _ = pool.reset()
    model = import_module("headrace.envs.gymnasium_robotics.maze").TASKS[task].model({})
    for name in ("geom_pos", "geom_size", "body_mass", "geom_contype", "geom_conaffinity"):
        np.testing.assert_allclose(getattr(model, name), getattr(env.model, name), 1e-12, err_msg=name)
    for key, cells in (
        ("desired_goal", env.maze.unique_goal_locations),
        ("achieved_goal", env.maze.unique_reset_locations),
    ):
        side, cells = env.maze.maze_size_scaling, np.array(cells)
        offset = np.abs(obs[key][:, None] - cells).max(-1)
        assert offset.min(1).max() <= 0.25 * side  # each is in a cell,
        assert len(np.unique(offset.argmin(1))) == len(cells)  # and in each cell there is one


def test_a_reached_goal_is_followed_by_another() -> None:
    """As in Gymnasium-Robotics, an observation has the goal that was rewarded."""
    with headrace.make("PointMaze_UMaze-v3", num_envs=64, seed=1, reset_target=True) as pool:
        obs, _ = pool.reset()
        before = obs["desired_goal"].copy()
        pool._executor.state_arrays()["goal"][:] = obs["achieved_goal"] + 0.1
        obs, reward, *_ = pool.step(np.zeros((64, 2)))
        assert (reward == 1).all() and not np.array_equal(obs["desired_goal"], before)
        obs, reward, terminated, *_ = pool.step(np.zeros((64, 2)))
        assert (reward == 0).all() and not terminated.any()
        assert (np.linalg.norm(obs["desired_goal"] - obs["achieved_goal"], axis=1) > 0.45).all()


@pytest.mark.parametrize("task", ["PointMaze_UMaze-v3", "AntMaze_UMaze-v5"])
def test_signals_say_what_is_seen_and_what_is_moved(task: str) -> None:
    with headrace.make(task, num_envs=1, seed=3, flat_observation=True) as pool:
        pool.reset()
        obs = np.array(pool.step(np.full((1, *pool.action_space.shape), 0.3))[0][0])
        told, state = pool.spec.signals, pool.state_arrays()
        ends = np.cumsum([part.size for part in told.observation])
        seen = {part.name: obs[end - part.size : end] for part, end in zip(told.observation, ends, strict=True)}
        assert ends[-1] == len(obs) and len(told.action) == pool.action_space.shape[0]
        joints = "slides" if task.startswith("Point") else "joints"
        last = len(seen[f"velocities of {joints}"])
        np.testing.assert_array_equal(seen["achieved goal"], state["qpos"][0, :2])
        np.testing.assert_array_equal(seen["desired goal"], state["goal"][0])
        np.testing.assert_array_equal(seen[f"velocities of {joints}"], state["qvel"][0, -last:])
    assert {(control.unit, control.scale) for control in told.action} == {("N", 100.0) if last == 2 else ("N m", 150.0)}


@pytest.mark.parametrize("options", [{}, {"reward_type": "dense"}, {"continuing_task": False}])
def test_rewards_and_ends_of_other_goals_are_the_environments(options: dict[str, Any]) -> None:
    task = "PointMaze_Open-v3"
    goals, env = build_task(task, flat_observation=True, **options).goals, official(task, **options)
    assert goals is not None
    achieved, desired = np.random.default_rng(1).uniform(0, 1, (2, 50, 2))
    earned, ends = goals.judge()(achieved, desired)
    np.testing.assert_allclose(earned, env.compute_reward(achieved, desired, {}), 1e-6)
    expected = [env.compute_terminated(one, other, {}) for one, other in zip(achieved, desired, strict=True)]
    np.testing.assert_array_equal(np.zeros(50, bool) if ends is None else ends, expected)
    assert any(expected) == ("continuing_task" in options)
