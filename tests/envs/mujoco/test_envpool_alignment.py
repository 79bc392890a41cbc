"""Info of MuJoCo tasks equals EnvPool's: from an equal state, with equal actions, in every number of it."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium_side import OURS, TASKS

import headrace
from nightly import rest_nightly

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    envpool: Any = pytest.importorskip("envpool")

STEPS = 12
CLOSE = 5e-4  # relative and absolute: EnvPool has another version of MuJoCo
PLACES = {"exclude_current_positions_from_observation": False}  # so that observations hold the whole state
SHOWN_WHOLE = ("Ant", "HalfCheetah", "Hopper", "HumanoidStandup", "Humanoid", "Swimmer", "Walker2d")
OTHERWISE = {  # infos in which EnvPool differs from Gymnasium, which ours follow
    "Ant-v5": {"x_position", "y_position", "distance_from_origin"},  # of the torso, not of the root joint
    "Humanoid-v5": {"x_position", "y_position", "distance_from_origin"},  # of the centre of mass
    "HumanoidStandup-v4": {"reward_impact"},  # without contact forces, and so 0
}


def state_of(task: str, obs: np.ndarray, nq: int, nv: int, ours: np.ndarray, own_qpos: np.ndarray) -> Any:
    """(qpos, qvel) from what EnvPool observes at a start; `ours` and `own_qpos` are of another start of ours."""
    qpos, qvel = np.zeros(nq), np.zeros(nv)
    name = task.rpartition("-")[0]
    if name == "Reacher":
        qpos[:2], qpos[2:], qvel[:2] = np.arctan2(obs[2:4], obs[:2]), obs[4:6], obs[6:8]
    elif name == "Pusher":  # the object slides along y and x from where the model has it
        qpos[:7], qvel[:7] = obs[:7], obs[7:14]
        qpos[-4], qpos[-3] = own_qpos[-4] + obs[18] - ours[18], own_qpos[-3] + obs[17] - ours[17]
    elif name == "InvertedDoublePendulum":
        qpos[0], qpos[1:], qvel[:] = obs[0], np.arctan2(obs[1:3], obs[3:5]), obs[5:8]
    else:
        qpos[:], qvel[:] = obs[:nq], obs[nq : nq + nv]
    return qpos, qvel


@pytest.mark.parametrize("task", rest_nightly(TASKS, *TASKS[::3]))
def test_info_equals_the_info_of_envpool(task: str) -> None:
    options: dict[str, Any] = PLACES if task.startswith(SHOWN_WHOLE) else {}
    theirs = envpool.make_gymnasium(task, num_envs=1, seed=1, **options)
    with headrace.make(task, num_envs=1, num_threads=1, seed=2, autoreset="disabled", **options) as pool:
        ours, info = pool.reset()
        obs, expected = theirs.reset()
        named = expected.keys() - OURS - OTHERWISE.get(task, set())
        for name in named:
            if name.startswith("reward"):
                np.testing.assert_array_equal(info[name], expected[name], err_msg=name)
        state = pool._executor.state_arrays()
        nq, nv = state["qpos"].shape[1], state["qvel"].shape[1]
        put = state_of(task, obs[0], nq, nv, ours[0], state["qpos"][0].copy())
        state["qpos"][0], state["qvel"][0] = put

        rng, space = np.random.default_rng(0), pool.action_space
        assert isinstance(space, gym.spaces.Box)
        compared = 0
        for step in range(STEPS):
            action = rng.uniform(space.low, space.high)[None]
            _, reward, terminated, _, info = pool.step(action)
            _, their_reward, their_end, _, expected = theirs.step(action)
            assert terminated == their_end
            if step == 0:
                continue  # speeds and Pusher-v4's distances depend on the state before
            if "reward_impact" not in OTHERWISE.get(task, ()):
                np.testing.assert_allclose(reward, their_reward, CLOSE, CLOSE)
            for name in named:
                np.testing.assert_allclose(info[name], expected[name], CLOSE, CLOSE, err_msg=f"{name}, step {step}")
            compared += 1
            if terminated[0]:
                break
    assert compared > 0
    theirs.close()
