"""Acrobot: swing up and balance a double pendulum of which only the second joint is actuated."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    PI,
    copy_row,
    excess,
    gaussian,
    suite_env,
    suite_model,
    suite_task,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform


@wp.struct
class State:
    """The constants: ``margin`` (m) is the reward's margin around the target, 0 for a sparse reward."""

    margin: wp.float64
    target_radius: wp.float64
    upper_arm: int
    lower_arm: int
    tip: int
    target: int


@wp.struct
class View:
    obs_orientations: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    for i in range(2):
        physics.qpos[env, i] = uniform(streams, env, -PI, PI)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    distance = wp.length(physics.site_xpos[env, state.target] - physics.site_xpos[env, state.tip])
    away = excess(distance, wp.float64(0.0), state.target_radius, state.margin)
    return wp.float32(gaussian(away, AT_MARGIN)), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    upper = physics.xmat[env, state.upper_arm]
    lower = physics.xmat[env, state.lower_arm]
    view.obs_orientations[env, 0] = upper[0, 2]
    view.obs_orientations[env, 1] = lower[0, 2]
    view.obs_orientations[env, 2] = upper[2, 2]
    view.obs_orientations[env, 3] = lower[2, 2]
    copy_row(physics.qvel, env, 0, 2, view.obs_velocity, 0)


def acrobot(margin: float) -> MujocoTask:
    """Returns the task with this margin of the reward (m)."""

    def env(options: Any, model: Any) -> MujocoEnv:
        constants = {
            "margin": margin,
            "target_radius": model.site("target").size[0],
            "upper_arm": model.body("upper_arm").id,
            "lower_arm": model.body("lower_arm").id,
            "tip": model.site("tip").id,
            "target": model.site("target").id,
        }
        reads = ("qpos", "qvel", "xmat", "site_xpos")
        return suite_env("AcrobotSwingup", reads, State, View, reset, step, observe, constants=constants)

    return suite_task(env, lambda _: suite_model("acrobot"), {"orientations": 4, "velocity": 2})


TASKS = {"swingup": acrobot(1.0), "swingup_sparse": acrobot(0.0)}
