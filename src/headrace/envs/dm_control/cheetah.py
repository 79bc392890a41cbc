"""Cheetah: a planar two-legged robot that is rewarded for running forward."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import INFINITY, copy_row, excess, linear, suite_env, suite_model, suite_task
from headrace.pool.executors.mujoco import MujocoEnv, Streams, uniform

RUN_SPEED = wp.constant(wp.float64(10.0))  # m/s


@wp.struct
class State:
    njnt: int
    speed: int


@wp.struct
class View:
    obs_position: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    for j in range(state.njnt):
        if int(physics.jnt_limited[env, j]) != 0:
            bounds = physics.jnt_range[env, j]
            physics.qpos[env, j] = uniform(streams, env, bounds[0], bounds[1])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    slower = excess(physics.sensordata[env, state.speed], RUN_SPEED, INFINITY, RUN_SPEED)
    return wp.float32(linear(slower, wp.float64(0.0))), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, 1, state.njnt - 1, view.obs_position, 0)
    copy_row(physics.qvel, env, 0, state.njnt, view.obs_velocity, 0)


def env(options: Any, model: Any) -> MujocoEnv:
    speed = "torso_subtreelinvel"
    constants = {"speed": int(model.sensor(speed).adr[0])}
    reads = ("qpos", "qvel", "sensordata", "jnt_limited", "jnt_range")
    # the robot falls to the ground from a random pose before an episode begins
    return suite_env(
        "Cheetah", reads, State, View, reset, step, observe, settling_steps=200, constants=constants, sensors=(speed,)
    )


TASKS = {"run": suite_task(env, lambda _: suite_model("cheetah"), {"position": 8, "velocity": 9})}
