"""Swimmer: a planar chain of links that is rewarded for swimming to a target."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    JOINTS,
    copy_row,
    excess,
    long_tail,
    randomize_joints,
    suite_env,
    suite_model,
    suite_task,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
CLOSE = wp.constant(wp.float64(0.3))  # m, half the side of the square in which the target is
FAR = wp.constant(wp.float64(2.0))
CLOSE_CHANCE = wp.constant(wp.float64(0.2))  # probability of the smaller square
ROOT = wp.constant(3)  # number of joints of the head's pose


@wp.struct
class State:
    """The constants: ``target_radius`` (m), and the address ``velocities`` of the bodies' velocity sensors."""

    target_radius: wp.float64
    head: int
    nose: int
    target: int
    light: int
    velocities: int
    njnt: int
    num_bodies: int


@wp.struct
class View:
    obs_joints: wp.array2d[wp.float64]
    obs_to_target: wp.array2d[wp.float64]
    obs_body_velocities: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    randomize_joints(physics, env, state.njnt, streams)
    side = FAR
    if uniform(streams, env, ZERO, ONE) < CLOSE_CHANCE:
        side = CLOSE
    x = uniform(streams, env, -side, side)
    y = uniform(streams, env, -side, side)
    physics.geom_pos[env, state.target] = wp.vec3d(x, y, physics.geom_pos[env, state.target][2])
    physics.light_pos[env, state.light] = wp.vec3d(x, y, physics.light_pos[env, state.light][2])


@wp.func
def to_target(physics: Any, state: State, env: int) -> wp.vec2d:
    """Returns the vector from the nose to the target, in the head's frame (m)."""
    way = physics.geom_xpos[env, state.target] - physics.geom_xpos[env, state.nose]
    local = wp.transpose(physics.xmat[env, state.head]) * way
    return wp.vec2d(local[0], local[1])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    distance = wp.length(to_target(physics, state, env))
    away = excess(distance, ZERO, state.target_radius, wp.float64(5.0) * state.target_radius)
    return wp.float32(long_tail(away, AT_MARGIN)), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, ROOT, state.njnt - ROOT, view.obs_joints, 0)
    way = to_target(physics, state, env)
    view.obs_to_target[env, 0] = way[0]
    view.obs_to_target[env, 1] = way[1]
    for body in range(state.num_bodies):
        at = state.velocities + 6 * body
        view.obs_body_velocities[env, 3 * body] = physics.sensordata[env, at]
        view.obs_body_velocities[env, 3 * body + 1] = physics.sensordata[env, at + 1]
        view.obs_body_velocities[env, 3 * body + 2] = physics.sensordata[env, at + 5]  # about z


def env(options: Any, model: Any) -> MujocoEnv:
    target = model.geom("target")
    constants = {
        "target_radius": target.size[0],
        "head": model.body("head").id,
        "nose": model.geom("nose").id,
        "target": target.id,
        "light": model.light("target_light").id,
        "velocities": int(model.sensor("head_vel").adr[0]),
        "num_bodies": model.nbody - 1,
    }
    reads = (*JOINTS, "xmat", "geom_xpos", "sensordata", "geom_pos", "light_pos")
    varies = ("geom_pos", "light_pos")
    return suite_env("Swimmer", reads, State, View, reset, step, observe, varies=varies, constants=constants)


def swimmer(num_bodies: int) -> MujocoTask:
    """Returns the task with this many links."""
    sizes = {"joints": num_bodies - 1, "to_target": 2, "body_velocities": 3 * num_bodies}
    return suite_task(env, lambda _: suite_model("swimmer", num_bodies), sizes, frame_skip=15)


TASKS = {"swimmer6": swimmer(6), "swimmer15": swimmer(15)}
