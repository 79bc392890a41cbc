"""Reacher: bring the end of a planar two-link arm to a target."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    JOINTS,
    PI,
    copy_row,
    randomize_joints,
    suite_env,
    suite_model,
    suite_task,
    within,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform

NEAREST = wp.constant(wp.float64(0.05))  # m, from the arm's root to the target
FARTHEST = wp.constant(wp.float64(0.20))


@wp.struct
class State:
    """The constants: ``radii`` is the sum of the finger's and the target's radii (m)."""

    radii: wp.float64
    finger: int
    target: int
    njnt: int


@wp.struct
class View:
    obs_position: wp.array2d[wp.float64]
    obs_to_target: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    randomize_joints(physics, env, state.njnt, streams)
    angle = uniform(streams, env, wp.float64(0.0), wp.float64(2.0) * PI)
    radius = uniform(streams, env, NEAREST, FARTHEST)
    place = physics.geom_pos[env, state.target]
    place[0] = radius * wp.sin(angle)
    place[1] = radius * wp.cos(angle)
    physics.geom_pos[env, state.target] = place


@wp.func
def to_target(physics: Any, state: State, env: int) -> wp.vec2d:
    """Returns the vector from the finger to the target (m)."""
    way = physics.geom_xpos[env, state.target] - physics.geom_xpos[env, state.finger]
    return wp.vec2d(way[0], way[1])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    distance = wp.length(to_target(physics, state, env))
    return wp.float32(within(distance, wp.float64(0.0), state.radii)), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, 0, 2, view.obs_position, 0)
    way = to_target(physics, state, env)
    view.obs_to_target[env, 0] = way[0]
    view.obs_to_target[env, 1] = way[1]
    copy_row(physics.qvel, env, 0, 2, view.obs_velocity, 0)


def reacher(target_radius: float) -> MujocoTask:
    """Returns the task with a target of this radius (m)."""

    def model(options: Any) -> Any:
        built = suite_model("reacher")
        built.geom("target").size[0] = target_radius
        return built

    def env(options: Any, model: Any) -> MujocoEnv:
        finger, target = model.geom("finger"), model.geom("target")
        radii = target.size[0] + finger.size[0]
        constants = {"radii": radii, "finger": finger.id, "target": target.id}
        reads = (*JOINTS, "qvel", "geom_xpos", "geom_pos")
        return suite_env(
            "ReachTarget", reads, State, View, reset, step, observe, varies=("geom_pos",), constants=constants
        )

    return suite_task(env, model, {"position": 2, "to_target": 2, "velocity": 2})


TASKS = {"easy": reacher(0.05), "hard": reacher(0.015)}
