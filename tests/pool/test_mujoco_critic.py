"""What only a critic sees of a robot's task: a second part of the observation."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.errors import KernelError, OptionError
from headrace.mujoco import MujocoEnv, MujocoTask, Streams, uniform
from headrace.train import train
from headrace.train.launch.checks import check_request
from pool.mujoco_robot import SEEN, XML, F, State, played, pool_of, reset, same
from pool.mujoco_robot import TASK as TWO


@wp.struct
class View:
    obs: wp.array2d[F]
    obs_critic: wp.array2d[F]


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    return wp.float32(0.0), False


@wp.func
def observe(physics: Any, state: State, env: int, view: View, streams: Streams):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i] + uniform(streams, env, F(-0.1), F(0.1))
        view.obs_critic[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]


ENV = MujocoEnv("Critic", ("qpos", "qvel"), State, View, reset, step, observe, start="home")
TRUE = gym.spaces.Box(-np.inf, np.inf, (9,), np.float64)
STACKED: dict[str, Any] = {"env_options": {"frame_stack": 2}}
TASK = MujocoTask(ENV, XML, SEEN, max_episode_steps=4, critic=TRUE)


@pytest.mark.parametrize("how", [{"physics": "mujoco"}, {"physics": "lanes"}, {"on_torch": True}])
def test_the_observation_has_a_part_for_the_critic(how: dict[str, Any]) -> None:
    with pool_of(TASK, num_envs=3, seed=2, **how) as pool:
        assert list(pool.observation_space) == ["obs", "critic"]
        rows = played(pool, 6)
    for row in rows:
        noise = row["obs:obs"][:, :9] - row["obs:critic"]
        assert row["obs:critic"].dtype == np.float64 and (np.abs(noise) < 0.1001).all() and noise.all()


def test_both_parts_are_stacked_and_are_the_same_on_threads() -> None:
    with pool_of(TASK, num_envs=3, seed=2, frame_stack=2, physics="mujoco") as pool:
        stacked = played(pool, 6)
    with pool_of(TASK, num_envs=3, seed=2, num_threads=3, physics="mujoco") as pool:
        rows = played(pool, 6)
    for name in ("obs:obs", "obs:critic"):
        same([{name: row[name][:, 1]} for row in stacked], [{name: row[name]} for row in rows])


def test_critic_is_an_option_without_which_observations_are_one_array() -> None:
    with pool_of(TASK, num_envs=3, seed=2, physics="mujoco") as pool:
        both = played(pool, 6)
    with pool_of(TASK, num_envs=3, seed=2, critic=False, physics="mujoco") as pool:
        assert pool.observation_space == SEEN
        same([{"obs": row["obs"]} for row in played(pool, 6)], [{"obs": row["obs:obs"]} for row in both])
    with pytest.raises(OptionError, match="critic"), pool_of(TWO, num_envs=1, critic=False):
        pass


@pytest.mark.parametrize("how", [{"physics": "mujoco"}, {"physics": "lanes"}, {"on_torch": True}])
def test_one_array_ends_with_what_only_a_critic_sees(how: dict[str, Any]) -> None:
    with pool_of(TASK, num_envs=3, seed=2, **how) as pool:
        parts = played(pool, 6)
    with pool_of(TASK, num_envs=3, seed=2, flat_observation=True, **how) as pool:
        assert pool.spec.critic == 9
        whole = played(pool, 6)
    same([{"obs": np.concatenate((row["obs:obs"], row["obs:critic"]), 1)} for row in parts], whole)
    single = gym.spaces.Box(-1, 1, (9,), np.float32)
    for task, options in ((TASK, {"frame_stack": 2}), (replace(TASK, critic=single), {})):
        with (
            pytest.raises(OptionError, match="no array ends with what only a critic sees: give one frame"),
            pool_of(task, num_envs=1, flat_observation=True, **options),
        ):
            pass


@pytest.mark.parametrize("settings", [{}, {"algo": "a2c"}])
def test_critics_that_are_apart_from_actors_see_it(settings: dict[str, Any], tmp_path: Path) -> None:
    headrace.register("Pair-v0", TASK, replace=True)
    request = check_request("Pair-v0", {"total_steps": 1000, **settings})
    assert request.config.env_options.items() >= {"critic": True, "flat_observation": True}.items()
    assert "the critic sees 9 numbers that the actor does not (critic=True)" in request.remarks
    assert not any("flat_observation" in each for each in request.remarks)
    run: Any = {"total_steps": 512, "num_envs": 8, "num_steps": 32, "hidden": (8,), "quiet": True, "video": False}
    for steps in (512, 1024):  # the second goes on with the first
        how = {"algo": "ppo"} | settings | run | {"total_steps": steps}
        assert train("Pair-v0", **how, run_dir=tmp_path / "run", resume=True).steps >= steps


@pytest.mark.parametrize("settings", [{"algo": "sac"}, {"network": "gru"}, {"shared": True}, STACKED])
def test_others_learn_without_it_and_say_so(settings: dict[str, Any]) -> None:
    headrace.register("Pair-v0", TASK, replace=True)
    request = check_request("Pair-v0", {"total_steps": 1000, **settings})
    assert request.config.env_options["critic"] is False
    assert "learns without what only a critic sees (critic=False)" in request.remarks
    assert check_request("Pair-v0", {"env_options": {"critic": False}}).config.env_options["critic"] is False
    if settings is not STACKED:
        with pytest.raises(OptionError, match=r"has no critic apart from its actor.*by the option critic=False"):
            check_request("Pair-v0", settings | {"env_options": {"critic": True}})


def test_parts_that_are_no_boxes_and_a_view_without_them_are_refused() -> None:
    many = gym.spaces.Dict({"a": SEEN})
    with (
        pytest.raises(KernelError, match="observation and critic must be a Box"),
        pool_of(replace(TASK, critic=many), num_envs=1),
    ):
        pass
    wide = replace(TASK, critic=gym.spaces.Box(-1, 1, (10,), np.float64))
    with pytest.raises(KernelError, match=r"view.obs_critic\[env, 9\] is not set"), pool_of(wide, num_envs=1):
        pass
    with (
        pytest.raises(KernelError, match="lacks the field 'obs_critic'"),
        pool_of(replace(TWO, critic=TRUE), num_envs=1),
    ):
        pass
