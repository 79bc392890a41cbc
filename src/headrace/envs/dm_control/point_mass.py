"""Point mass: move a mass in a plane to a target; in the hard task, the directions of the forces are random."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    JOINTS,
    copy_row,
    excess,
    gaussian,
    randomize_joints,
    small_control,
    standard_normal,
    suite_env,
    suite_model,
    suite_task,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams

MOST_PARALLEL = wp.constant(wp.float64(0.9))  # largest cosine of the angle between the two axes


@wp.struct
class State:
    randomize_gains: wp.bool
    target_radius: wp.float64
    mass: int
    target: int
    njnt: int
    nu: int


@wp.struct
class View:
    obs_position: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def random_axis(streams: Streams, env: int) -> wp.vec2d:
    """Returns a random unit vector."""
    x = standard_normal(streams, env)
    return wp.normalize(wp.vec2d(x, standard_normal(streams, env)))


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    randomize_joints(physics, env, state.njnt, streams)
    if state.randomize_gains:  # the joints' coefficients in each actuator's tendon
        first = random_axis(streams, env)
        second = random_axis(streams, env)
        while wp.abs(wp.dot(first, second)) > MOST_PARALLEL:
            second = random_axis(streams, env)
        for i in range(2):
            physics.wrap_prm[env, i] = first[i]
            physics.wrap_prm[env, 2 + i] = second[i]


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    distance = wp.length(physics.geom_xpos[env, state.target] - physics.geom_xpos[env, state.mass])
    near = gaussian(excess(distance, wp.float64(0.0), state.target_radius, state.target_radius), AT_MARGIN)
    gentle = (small_control(actions, env, state.nu) + wp.float64(4.0)) / wp.float64(5.0)
    return wp.float32(near * gentle), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, 0, 2, view.obs_position, 0)
    copy_row(physics.qvel, env, 0, 2, view.obs_velocity, 0)


def point_mass(randomize_gains: bool) -> MujocoTask:
    """Returns the task, with random directions of the forces or with those along the axes."""

    def env(options: Any, model: Any) -> MujocoEnv:
        target = model.geom("target")
        constants = {
            "randomize_gains": randomize_gains,
            "target_radius": target.size[0],
            "mass": model.geom("pointmass").id,
            "target": target.id,
        }
        reads = (*JOINTS, "qvel", "geom_xpos", "wrap_prm")
        varies = ("wrap_prm",) if randomize_gains else ()
        return suite_env("PointMass", reads, State, View, reset, step, observe, varies=varies, constants=constants)

    return suite_task(env, lambda _: suite_model("point_mass"), {"position": 2, "velocity": 2})


TASKS = {"easy": point_mass(randomize_gains=False), "hard": point_mass(randomize_gains=True)}
