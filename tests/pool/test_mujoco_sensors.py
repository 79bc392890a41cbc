"""Sensors that a robot's task reads by name, and the functions for frames and feet."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp

from headrace.errors import KernelError
from headrace.mujoco import (
    SITE_VELOCITY,
    Field,
    MujocoEnv,
    MujocoTask,
    Streams,
    projected_gravity,
    site_velocity,
    to_frame,
    to_world,
    uniform,
)
from pool.mujoco_robot import NUMBER, SEEN, XML, F, played, pool_of, with_env

SENSORS = ("imu_quat", "imu_gyro", "rear_touch")
PAIR = (
    '<framepos name="unread" objtype="site" objname="imu"/><contact name="front_pair" geom1="front" data="found dist"/>'
)
MODEL_XML = XML.replace("</sensor>", f"{PAIR}</sensor>")
MODEL = mujoco.MjModel.from_xml_string(MODEL_XML)


@wp.struct
class Places:
    command: wp.array[F]
    steps: wp.array[wp.int32]
    nq: int
    nv: int
    foot: int
    trunk: int


@wp.struct
class View:
    obs: wp.array2d[F]
    quat: wp.array2d[F]
    gyro: wp.array2d[F]
    touch: wp.array[F]
    pair: wp.array2d[F]
    foot: wp.array2d[F]
    gravity: wp.array2d[F]
    there_and_back: wp.array2d[F]


@wp.func
def reset(physics: Any, state: Places, env: int, streams: Streams):
    for i in range(state.nv):
        physics.qvel[env, i] = uniform(streams, env, F(-1.0), F(1.0))
    state.steps[env] = 0
    state.command[env] = F(0.0)


@wp.func
def step(physics: Any, state: Places, env: int, actions: wp.array2d[F], view: View):
    return wp.float32(0.0), False


@wp.func
def observe(physics: Any, state: Places, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]
    quat, gyro = physics.sensor.imu_quat[env], physics.sensor.imu_gyro[env]
    foot, down = site_velocity(physics, env, state.foot), projected_gravity(physics.xquat[env, state.trunk])
    for i in range(4):
        view.quat[env, i] = quat[i]
    back = to_frame(quat, to_world(quat, gyro))
    for i in range(3):
        view.gyro[env, i] = gyro[i]
        view.foot[env, i] = foot[i]
        view.gravity[env, i] = down[i]
        view.there_and_back[env, i] = back[i]
    view.touch[env] = physics.sensor.rear_touch[env]
    for i in range(2):
        view.pair[env, i] = F(0.0)


@wp.func
def observe_pair(physics: Any, state: Places, env: int, view: View):
    observe(physics, state, env, view)
    for i in range(2):
        view.pair[env, i] = physics.sensor.front_pair[env, i]


WIDTHS = {"quat": 4, "gyro": 3, "pair": 2, "foot": 3, "gravity": 3, "there_and_back": 3}
ENV = MujocoEnv(
    "Senses",
    ("qpos", "qvel", "xquat", *SITE_VELOCITY),
    Places,
    View,
    reset,
    step,
    observe,
    shapes={name: (width,) for name, width in WIDTHS.items()},
    constants={"foot": MODEL.site("front_foot").id, "trunk": MODEL.body("trunk").id},
    sensors=SENSORS,
    start="home",
    fresh=True,
)
INFO = (*(Field(name, NUMBER, (width,)) for name, width in WIDTHS.items()), Field("touch", NUMBER))
TASK = MujocoTask(ENV, MODEL_XML, SEEN, INFO, frame_skip=5, max_episode_steps=50)


@pytest.mark.parametrize("how", [{"physics": "mujoco", "num_threads": 2}, {"physics": "lanes"}, {"on_torch": True}])
def test_sensors_and_velocities_are_those_of_mujoco(how: dict[str, Any]) -> None:
    near = 1e-3 if "on_torch" in how else 1e-9
    pairs = how.get("physics") == "mujoco"  # other physics may not have them
    task = with_env(TASK, observe=observe_pair, sensors=(*SENSORS, "front_pair")) if pairs else TASK
    with pool_of(task, num_envs=5, seed=3, **how) as pool:
        rows = played(pool, 12)
    data = mujoco.MjData(MODEL)
    touched = 0
    for row in rows:
        for env in range(5):
            seen = {name: row[name][env] for name in (*WIDTHS, "touch")}
            data.qpos[:], data.qvel[:] = row["obs"][env, :9], row["obs"][env, 9:]
            mujoco.mj_forward(MODEL, data)
            velocity = np.zeros(6)
            mujoco.mj_objectVelocity(MODEL, data, mujoco.mjtObj.mjOBJ_SITE, MODEL.site("front_foot").id, velocity, 0)
            expected = {
                "quat": data.sensor("imu_quat").data,
                "gyro": data.sensor("imu_gyro").data,
                "there_and_back": data.sensor("imu_gyro").data,
                "foot": velocity[3:],
                "gravity": data.body("trunk").xmat.reshape(3, 3).T @ [0, 0, -1],
            }
            if pairs:
                expected["pair"] = data.sensor("front_pair").data
            for name, values in expected.items():
                np.testing.assert_allclose(seen[name], values, atol=near, err_msg=name)
            touched += seen["touch"] > 0
    assert touched > 3  # feet are on the ground at times


@wp.func
def observe_another(physics: Any, state: Places, env: int, view: View):
    view.touch[env] = physics.sensor.rear_tuch[env]


ANOTHER: Any = observe_another
LINE = ANOTHER.func.__code__.co_firstlineno + 2  # below the decorator and the definition


@wp.func
def observe_beyond(physics: Any, state: Places, env: int, view: View):
    view.touch[env] = physics.sensor.front_pair[env, 2]


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"sensors": ("imu_gyro", "nose")}, "'nose', which is no sensor of the model; it has 'imu_gyro', 'imu_quat'"),
        (
            {"observe": observe_another},
            rf"sensor has no field 'rear_tuch': name it in sensors=\(…\): did you mean 'rear_touch'.*\n.*:{LINE}, in",
        ),
        ({"observe": observe_beyond, "sensors": (*SENSORS, "front_pair")}, r"front_pair.*2"),
    ],
)
def test_sensors_that_are_not_there_are_refused(env: dict[str, Any], told: str) -> None:
    with pytest.raises(KernelError, match=told), pool_of(with_env(TASK, **env), num_envs=1):
        pass
