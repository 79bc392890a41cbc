"""Ball in cup: catch a ball that is attached to the cup by a string."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import copy_row, suite_env, suite_model, suite_task
from headrace.pool.executors.mujoco import MujocoEnv, Streams, uniform


@wp.struct
class State:
    """The constants: ``reach_x`` and ``reach_z`` are the largest offsets of a caught ball from the target (m)."""

    reach_x: wp.float64
    reach_z: wp.float64
    ball: int
    target: int
    ball_x: int
    ball_z: int


@wp.struct
class View:
    obs_position: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qpos[env, state.ball_x] = uniform(streams, env, wp.float64(-0.2), wp.float64(0.2))
    physics.qpos[env, state.ball_z] = uniform(streams, env, wp.float64(0.2), wp.float64(0.5))


@wp.func
def accept(physics: Any, state: State, env: int):
    return physics.ncon[env] == 0


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    way = physics.site_xpos[env, state.target] - physics.xpos[env, state.ball]
    caught = wp.abs(way[0]) < state.reach_x and wp.abs(way[2]) < state.reach_z
    return wp.where(caught, wp.float32(1.0), wp.float32(0.0)), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, 0, 4, view.obs_position, 0)
    copy_row(physics.qvel, env, 0, 4, view.obs_velocity, 0)


def env(options: Any, model: Any) -> MujocoEnv:
    target, ball = model.site("target"), model.geom("ball").size[0]
    constants = {
        "reach_x": target.size[0] - ball,
        "reach_z": target.size[2] - ball,
        "ball": model.body("ball").id,
        "target": target.id,
        "ball_x": int(model.joint("ball_x").qposadr[0]),
        "ball_z": int(model.joint("ball_z").qposadr[0]),
    }
    reads = ("qpos", "qvel", "xpos", "site_xpos", "ncon")
    return suite_env("BallInCup", reads, State, View, reset, step, observe, accept=accept, constants=constants)


TASKS = {"catch": suite_task(env, lambda _: suite_model("ball_in_cup"), {"position": 4, "velocity": 4}, frame_skip=10)}
