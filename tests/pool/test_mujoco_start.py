"""Episodes of MuJoCo's tasks that start from a keyframe of the model."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp

from headrace.errors import KernelError
from headrace.mujoco import Field, MujocoEnv, MujocoTask, Streams
from pool.mujoco_robot import NUMBER, SEEN, XML, F, State, played, pool_of, with_env

MODEL = mujoco.MjModel.from_xml_string(XML)


@wp.struct
class View:
    obs: wp.array2d[F]
    time: wp.array[F]
    control: wp.array[F]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    state.steps[env] = 0
    state.command[env] = F(0.0)
    physics.qpos[env, 0] = physics.qpos[env, 0] + F(0.25)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    return wp.float32(0.0), physics.qpos[env, 2] < F(0.1)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]
    view.time[env] = physics.time[env]
    view.control[env] = physics.ctrl[env, 1]


READS = ("qpos", "qvel", "ctrl", "time")
ENV = MujocoEnv("Start", READS, State, View, reset, step, observe, start="home")
TASK = MujocoTask(ENV, XML, SEEN, (Field("time", NUMBER), Field("control", NUMBER)), max_episode_steps=5)


@pytest.mark.parametrize("name", ["home", "moving"])
@pytest.mark.parametrize("how", ["mujoco", "lanes", "varied", "device"])
def test_episodes_start_from_the_keyframe(name: str, how: str) -> None:
    varied = {"reads": (*READS, "body_mass"), "varies": ("body_mass",)} if how == "varied" else {}
    options: Any = {"on_torch": True} if how == "device" else {"physics": "lanes" if how == "lanes" else "mujoco"}
    key = MODEL.key(name)
    with pool_of(with_env(TASK, start=name, **varied), num_envs=3, **options) as pool:
        rows = played(pool, 13)
    expected = np.concatenate([key.qpos + np.eye(9)[0] * 0.25, key.qvel])
    for first in (rows[0], rows[6], rows[12]):  # the second and third follow after truncated episodes
        np.testing.assert_allclose(first["obs"], np.tile(expected, (3, 1)), atol=1e-7 if how == "device" else 0)
        np.testing.assert_allclose(first["control"], key.ctrl[1], atol=1e-7)
        np.testing.assert_array_equal(first["time"], 0)
    assert (rows[1]["time"] > 0).all()


def test_without_a_start_an_episode_starts_from_the_model() -> None:
    with pool_of(with_env(TASK, start=""), num_envs=1) as pool:
        assert played(pool, 0)[0]["obs"][0, 2] == MODEL.qpos0[2]


def test_an_unknown_keyframe_is_refused_with_those_that_there_are() -> None:
    told = r"start='hoem' is no keyframe of the model; it has 'home', 'moving'"
    with pytest.raises(KernelError, match=told), pool_of(with_env(TASK, start="hoem"), num_envs=1):
        pass
