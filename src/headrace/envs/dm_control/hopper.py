"""Hopper: a planar one-legged robot that is rewarded for standing or for hopping forward."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    INFINITY,
    JOINTS,
    copy_row,
    excess,
    linear,
    log1p,
    randomize_joints,
    small_control,
    suite_env,
    suite_model,
    suite_task,
    within,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams

STAND_HEIGHT = wp.constant(wp.float64(0.6))  # m, of the torso above the foot
HOP_SPEED = wp.constant(wp.float64(2.0))  # m/s
HALF = wp.constant(wp.float64(0.5))


@wp.struct
class State:
    hops: wp.bool
    torso: int
    foot: int
    speed: int
    toe: int
    heel: int
    njnt: int
    nu: int


@wp.struct
class View:
    obs_position: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]
    obs_touch: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    randomize_joints(physics, env, state.njnt, streams)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    height = physics.xipos[env, state.torso][2] - physics.xipos[env, state.foot][2]
    reward = within(height, STAND_HEIGHT, wp.float64(2.0))
    if state.hops:
        speed = physics.sensordata[env, state.speed]
        reward *= linear(excess(speed, HOP_SPEED, INFINITY, HOP_SPEED * HALF), HALF)
    else:
        reward *= (small_control(actions, env, state.nu) + wp.float64(4.0)) / wp.float64(5.0)
    return wp.float32(reward), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, 1, state.njnt - 1, view.obs_position, 0)
    copy_row(physics.qvel, env, 0, state.njnt, view.obs_velocity, 0)
    view.obs_touch[env, 0] = log1p(physics.sensordata[env, state.toe])
    view.obs_touch[env, 1] = log1p(physics.sensordata[env, state.heel])


SENSORS = {"speed": "torso_subtreelinvel", "toe": "touch_toe", "heel": "touch_heel"}


def hopper(hops: bool) -> MujocoTask:
    """Returns the task to hop, or else to stand."""

    def env(options: Any, model: Any) -> MujocoEnv:
        constants = {
            "hops": hops,
            "torso": model.body("torso").id,
            "foot": model.body("foot").id,
            **{name: int(model.sensor(sensor).adr[0]) for name, sensor in SENSORS.items()},
        }
        reads = (*JOINTS, "qvel", "xipos", "sensordata")
        sensors = tuple(SENSORS.values())
        return suite_env("Hopper", reads, State, View, reset, step, observe, constants=constants, sensors=sensors)

    return suite_task(env, lambda _: suite_model("hopper"), {"position": 6, "velocity": 7, "touch": 2}, frame_skip=4)


TASKS = {"stand": hopper(hops=False), "hop": hopper(hops=True)}
