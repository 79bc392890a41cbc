"""Pendulum: swing up a pendulum and keep it upright, by a torque too weak to lift it directly."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math
from typing import Any

import warp as wp

from headrace.envs.dm_control.common import PI, suite_env, suite_model, suite_task, within
from headrace.pool.executors.mujoco import MujocoEnv, Streams, uniform

UPRIGHT = wp.constant(wp.float64(math.cos(math.radians(8))))


@wp.struct
class State:
    pole: int


@wp.struct
class View:
    obs_orientation: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qpos[env, 0] = uniform(streams, env, -PI, PI)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    pole = physics.xmat[env, state.pole]
    return wp.float32(within(pole[2, 2], UPRIGHT, wp.float64(1.0))), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    pole = physics.xmat[env, state.pole]
    view.obs_orientation[env, 0] = pole[2, 2]
    view.obs_orientation[env, 1] = pole[0, 2]
    view.obs_velocity[env, 0] = physics.qvel[env, 0]


def env(options: Any, model: Any) -> MujocoEnv:
    constants = {"pole": model.body("pole").id}
    return suite_env("Pendulum", ("qpos", "qvel", "xmat"), State, View, reset, step, observe, constants=constants)


TASKS = {"swingup": suite_task(env, lambda _: suite_model("pendulum"), {"orientation": 2, "velocity": 1})}
